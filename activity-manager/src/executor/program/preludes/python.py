# Runs the Python code of an activity. Its parameters are global variables; the variables of its OUT parameters are its results.


def _xv_run():
    import collections.abc
    import io
    import json
    import os
    import sys
    import types

    own, folder, process = __file__, os.environ["XAVANTES_DIRECTORY"], os.getpid()
    script = os.path.join(folder, "script")

    class Connection:
        """The connection to the worker. A process that was forked, or another thread, shares it in turns."""

        def __init__(self):
            import socket
            import threading

            self.process, self.turn = os.getpid(), threading.Lock()
            self.stream = socket.socket(socket.AF_UNIX)
            self.stream.connect(os.environ["XAVANTES_SHARED"])
            self.lines = self.stream.makefile("rb")

        def ask(self, request):
            with self.turn:
                self.stream.sendall(json.dumps(request).encode() + b"\n")
                return self.lines.readline()

    class Shared:
        """A shared object: its methods are those that it has in Lua."""

        connection = None

        def __init__(self, kind, number):
            self._kind, self._number = kind, number

        def _call(self, method, arguments):
            if Shared.connection is None or Shared.connection.process != os.getpid():
                Shared.connection = Connection()
            arguments = [encode(argument) for argument in arguments]
            answer = Shared.connection.ask({"object": self._number, "method": method, "arguments": arguments})
            if not answer:
                raise RuntimeError("the worker closed the connection for shared objects")
            answer = json.loads(answer)
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return decode(answer["value"])

        def __getattr__(self, method):
            if method.startswith("_"):
                raise AttributeError(method)
            return lambda *arguments: self._call(method, arguments)

        def __len__(self):
            return self._call("size", ())

        def __bool__(self):
            return True

        def __contains__(self, item):
            return self._call("contains", (item,))

        def __iter__(self):
            return iter(self._call("values", ()))

        def __repr__(self):
            return self._kind

    abc = collections.abc
    lists = (abc.Sequence, abc.Set, abc.MappingView, abc.Iterator)

    def decode(value):
        if isinstance(value, list):
            return [decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((key, inner),) = value.items()
            if key == "$int":
                return int(inner)
            if key == "$float":
                return float(inner)
            if key == "$bytes":
                return bytes.fromhex(inner)
            if key == "$shared":
                return Shared(inner["kind"], inner["object"])
        return {key: decode(item) for key, item in value.items()}

    def encode(value):
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            value.encode()
            return str(value)
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise ValueError("%d does not fit in 64 bits" % value)
            return int(value)
        if isinstance(value, float):
            return float(value) if abs(value) < float("inf") else {"$float": str(float(value))}
        if isinstance(value, (bytes, bytearray)):
            return {"$bytes": value.hex()}
        if isinstance(value, Shared):
            return {"$shared": {"object": value._number}}
        if isinstance(value, dict):
            return {str(key): encode(item) for key, item in value.items()}
        if not isinstance(value, (type, io.IOBase)):
            # Arrays and numbers of NumPy, series of pandas.
            if hasattr(value, "tolist"):
                return encode(value.tolist())
            if hasattr(value, "__fspath__"):
                return os.fspath(value)
            # Other mappings. A data frame is a mapping from names to columns.
            if hasattr(value, "keys") and hasattr(value, "__getitem__"):
                return {str(key): encode(value[key]) for key in value.keys()}
            if isinstance(value, lists):
                return [encode(item) for item in value]
        raise TypeError("a Python value of the type %s is no value of a process" % type(value).__name__)

    def write(variables, outs):
        values, problems = {}, {}
        for name in outs:
            if name in variables:
                try:
                    values[name] = encode(variables[name])
                except Exception as problem:
                    problems[name] = str(problem)
        with open(os.path.join(folder, "assigned.json"), "w") as file:
            json.dump({"values": values, "problems": problems}, file)

    def show(kind, problem, trace):
        # The frames of this file say nothing to the author of the code.
        while trace is not None and trace.tb_frame.f_code.co_filename == own:
            trace = trace.tb_next
        sys.__excepthook__(kind, problem.with_traceback(trace), trace)

    sys.excepthook, sys.argv = show, [script]
    with open(os.path.join(folder, "values.json"), encoding="utf-8") as file:
        given = json.load(file)
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    # The code has a module of its own: it may give any name to its variables, also those that this file uses.
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    variables = main.__dict__
    variables["__file__"] = script
    variables.update((name, decode(value)) for name, value in given["values"].items())
    try:
        exec(code, variables)
    finally:
        if os.getpid() == process:
            write(variables, given["outs"])


_xv_run()
