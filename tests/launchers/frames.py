"""Ranks of frameworks that number them in the program: accelerate's notebook_launcher, Lightning, Ray Train, torch.

    python -m tests.launchers.frames notebook|lightning|ray|torch
"""
import os
import sys

from tests.launchers import rank


def run_rank(*_):
    """What a framework runs in each rank."""
    rank.be_rank([])


def late(number, size):
    """What mp.spawn runs: it numbers ranks by an argument."""
    os.environ.update(RANK=str(number), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    run_rank()


def lightning():
    """ddp_spawn, in a world of one: Lightning sets LOCAL_RANK alone."""
    import lightning as L  # pylint: disable=import-outside-toplevel
    from tests.launchers.lit import Model  # pylint: disable=import-outside-toplevel

    L.Trainer(accelerator="cpu", devices=2, strategy="ddp_spawn", max_epochs=1, logger=False, enable_checkpointing=False,
              enable_progress_bar=False, enable_model_summary=False).fit(Model())


def ray():
    """Ray Train's workers."""
    import ray as R  # pylint: disable=import-outside-toplevel
    from ray.train import RunConfig, ScalingConfig  # pylint: disable=import-outside-toplevel
    from ray.train.torch import TorchTrainer  # pylint: disable=import-outside-toplevel

    folder = os.path.join(os.environ["OUT"], "r")
    R.init(num_cpus=3, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=folder)
    TorchTrainer(run_rank, scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
                 run_config=RunConfig(storage_path=folder, name="run")).fit()
    R.shutdown()


def main():
    """As the command line says."""
    how = sys.argv[1]
    if how == "torch":
        import torch.multiprocessing as mp  # pylint: disable=import-outside-toplevel
        mp.spawn(late, args=(2,), nprocs=2)
    elif how == "notebook":
        from accelerate import notebook_launcher  # pylint: disable=import-outside-toplevel
        os.environ["ACCELERATE_USE_CPU"] = "1"
        notebook_launcher(run_rank, num_processes=2, use_port="0")
    elif how == "lightning":
        lightning()
    else:
        ray()


if __name__ == "__main__":
    main()
