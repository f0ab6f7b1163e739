// Runs the JavaScript code of an activity. Its parameters are variables; the variables of its OUT parameters are its results.
"use strict";
{
  const fs = require("fs"), path = require("path"), vm = require("vm"), { createRequire } = require("module");
  const folder = process.env.XAVANTES_DIRECTORY, script = path.join(folder, "script");

  // Runs in a thread of its own, so that the code can wait for the answer to a call.
  const relay = () => {
    const { port, signal, address } = require("worker_threads").workerData;
    const answer = (line) => {
      port.postMessage(line);
      Atomics.store(signal, 0, 1);
      Atomics.notify(signal, 0);
    };
    let received = [];
    const socket = require("net").connect(address);
    socket.on("data", (bytes) => {
      received.push(bytes);
      if (bytes[bytes.length - 1] === 10) {
        const line = Buffer.concat(received).toString();
        received = [];
        answer(line);
      }
    });
    const failed = (problem) => answer(JSON.stringify({ error: `the connection for shared objects failed: ${problem}` }));
    socket.on("error", (problem) => failed(problem.message));
    socket.on("end", () => failed("the worker closed it"));
    port.on("message", (line) => socket.write(line));
  };

  let connection;
  const connect = () => {
    const { Worker, MessageChannel, receiveMessageOnPort } = require("worker_threads");
    const signal = new Int32Array(new SharedArrayBuffer(4)), { port1, port2 } = new MessageChannel();
    const workerData = { port: port2, signal, address: process.env.XAVANTES_SHARED };
    new Worker(`(${relay})()`, { eval: true, workerData, transferList: [port2] }).unref();
    port1.unref();
    return (line) => {
      port1.postMessage(line);
      Atomics.wait(signal, 0, 0);
      Atomics.store(signal, 0, 0);
      return receiveMessageOnPort(port1).message;
    };
  };

  const numbers = new WeakMap();
  const shared = (kind, number) => {
    const object = new Proxy({}, {
      get(_, method) {
        if (typeof method !== "string" || method === "then" || method === "toJSON") return undefined;
        return (...given) => {
          connection ??= connect();
          const call = { object: number, method, arguments: given.map(encode) };
          const answer = JSON.parse(connection(JSON.stringify(call) + "\n"));
          if ("error" in answer) throw new Error(answer.error);
          return decode(answer.value);
        };
      },
      has: () => false,
    });
    numbers.set(object, number);
    return object;
  };

  const decode = (value) => {
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(decode);
    const keys = Object.keys(value), inner = value[keys[0]];
    if (keys.length === 1) {
      if (keys[0] === "$int") return BigInt(inner);
      if (keys[0] === "$float") return { NaN: NaN, inf: Infinity, "-inf": -Infinity }[inner];
      if (keys[0] === "$bytes") return Buffer.from(inner, "hex");
      if (keys[0] === "$shared") return shared(inner.kind, inner.object);
    }
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, decode(item)]));
  };

  const encode = (value) => {
    switch (typeof value) {
      case "undefined": return null;
      case "boolean": case "string": return value;
      case "number": return Number.isFinite(value) ? value : { $float: Number.isNaN(value) ? "NaN" : value > 0 ? "inf" : "-inf" };
      case "bigint": return { $int: value.toString() };
      case "object": break;
      default: throw new TypeError(`a ${typeof value} is no value of a process`);
    }
    if (value === null) return null;
    if (numbers.has(value)) return { $shared: { object: numbers.get(value) } };
    if (Array.isArray(value)) return value.map(encode);
    if (value instanceof Uint8Array || value instanceof ArrayBuffer) return { $bytes: Buffer.from(value).toString("hex") };
    if (value instanceof DataView) return encode(value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength));
    if (ArrayBuffer.isView(value) || value instanceof Set) return Array.from(value, encode);
    if (value instanceof Number || value instanceof String || value instanceof Boolean) return encode(value.valueOf());
    // Dates and addresses, for example.
    if (typeof value.toJSON === "function") return encode(value.toJSON());
    const kind = Object.prototype.toString.call(value), prototype = Object.getPrototypeOf(value);
    if (/ Iterator\]$|Generator\]$|Arguments\]$/.test(kind)) return Array.from(value, encode);
    const entries = value instanceof Map ? [...value] : Object.entries(value);
    // Other objects are data if they have data.
    const plain = prototype === null || Object.getPrototypeOf(prototype) === null || value instanceof Map;
    if (!plain && (kind !== "[object Object]" || entries.length === 0)) {
      throw new TypeError(`a JavaScript value of the class ${value.constructor?.name} is no value of a process`);
    }
    return Object.fromEntries(entries.map(([key, item]) => [key, encode(item)]));
  };

  const { values, outs } = JSON.parse(fs.readFileSync(path.join(folder, "values.json"), "utf8"));
  // A parameter that the code does not change keeps its value.
  const initial = {};
  let results = {};
  process.on("exit", () => {
    const assigned = {}, problems = {};
    for (const name of Object.keys(outs)) {
      try {
        const value = results[name]?.();
        if (value === undefined) continue;
        const encoded = encode(value);
        if (JSON.stringify(encoded) !== initial[name]) assigned[name] = encoded;
      } catch (problem) {
        // A variable that the code declares further below than it got.
        if (!(problem instanceof ReferenceError)) problems[name] = problem.message;
      }
    }
    fs.writeFileSync(path.join(folder, "assigned.json"), JSON.stringify({ values: assigned, problems }));
  });
  const code = fs.readFileSync(script, "utf8").replace(/^#!/, "//");
  const scope = { exports: {}, require: createRequire(script), module: { exports: {} }, __filename: script, __dirname: folder };
  const variables = { ...scope, _xv: (found) => { results = found; } };
  for (const name of Object.keys(outs)) variables[name] = undefined;
  for (const [name, value] of Object.entries(values)) variables[name] = decode(value);
  for (const name of Object.keys(outs)) if (name in values) initial[name] = JSON.stringify(encode(variables[name]));
  // The block around the code lets it declare variables with the names of parameters.
  const found = `_xv({${Object.keys(outs).map((name) => `${name}:()=>${name}`)}});\n`;
  const compile = (before, after) => vm.compileFunction(before + code + after, Object.keys(variables), {
    filename: script, lineOffset: -1, importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  let run;
  try {
    run = compile(`{${found}`, "\n}");
  } catch (problem) {
    // The code may use `await` outside of functions.
    try {
      run = compile(`return (async()=>{${found}`, "\n})()");
    } catch {
      throw problem;
    }
  }
  process.argv.splice(1, process.argv.length, script);
  run.apply(scope.module.exports, Object.values(variables));
}
