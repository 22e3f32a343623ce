"""A task of PyTorch: all gather who the others are."""

from __future__ import annotations

import json
import os
import socket
import sys

import torch.distributed as dist

ME = {
    "rank": int(os.environ["RANK"]),
    "role": sys.argv[1],
    "host": socket.gethostname(),
    "cpus": int(os.environ["OMP_NUM_THREADS"]),
    "gpus": len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")),
}

dist.init_process_group("gloo")
everybody: list[object] = [None] * dist.get_world_size()
dist.all_gather_object(everybody, ME)
print("proof", json.dumps({"me": ME, "peers": everybody}), flush=True)
dist.barrier()  # the first process to exit would close the connections of the others
dist.destroy_process_group()
