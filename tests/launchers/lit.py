"""The least model that Lightning trains; it is pickled for the ranks, so that it has a module."""
import lightning as L
import torch

from tests.launchers import frames


class Model(L.LightningModule):
    """One layer."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, _):
        """One step."""
        return self.layer(batch).sum()

    def configure_optimizers(self):
        """Any."""
        return torch.optim.SGD(self.parameters(), 0.1)

    def train_dataloader(self):
        """Here a script lists its files."""
        frames.run_rank()
        return torch.utils.data.DataLoader(torch.ones(4, 1))
