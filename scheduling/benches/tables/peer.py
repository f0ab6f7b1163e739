# Plans a graph with the package anrg-saga: JSON in, JSON out.
import json
import logging
import sys
import time

from saga import Network, TaskGraph
from saga.schedulers.cpop import CpopScheduler
from saga.schedulers.heft import HeftScheduler
from saga.schedulers.minmin import MinMinScheduler

logging.disable(logging.WARNING)
document = json.load(sys.stdin)
answer = {}
costs, speeds = document["costs"], document["speeds"]
tasks = [(f"t{index:05}", cost) for index, cost in enumerate(costs)]
edges = [(f"t{source:05}", f"t{target:05}", size) for source, target, size in document["edges"]]
nodes = [(f"m{index}", speed) for index, speed in enumerate(speeds)]
links = [(one, other, 1.0) for one, _ in nodes for other, _ in nodes if one < other]
for name, planner in [("heft", HeftScheduler()), ("cpop", CpopScheduler()), ("min-min", MinMinScheduler())]:
    network, graph = Network.create(nodes, links), TaskGraph.create(tasks, edges)
    begin = time.process_time()
    makespan = planner.schedule(network, graph).makespan
    answer[name] = {"makespan": makespan, "seconds": time.process_time() - begin}
json.dump(answer, sys.stdout)
