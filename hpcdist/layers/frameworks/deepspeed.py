"""DeepSpeed: ``deepspeed.init_distributed`` reads the variables of PyTorch's ``env://``, a task a GPU.

Source: https://www.deepspeed.ai/getting-started/#launching-deepspeed-training. Users who start the program
``deepspeed`` themselves find the hosts in ``$HPCDIST_HOSTFILE``, whose form is DeepSpeed's.
"""

from __future__ import annotations

from hpcdist.layers.frameworks.pytorch import TorchLibrary


class DeepSpeed(TorchLibrary):
    """DeepSpeed over torch.distributed."""

    name = "deepspeed"


DEEPSPEED = DeepSpeed()
