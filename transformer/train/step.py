"""The training step of a configuration on its devices: the loop runs it, --dry_run compiles it."""

from functools import partial

from transformer.train import steps as training
from transformer.train.optimizer import make_optimizer


class Step:
    """Makes states and takes them a step further. batch: one of the run's, for its shapes."""

    def __init__(self, config, parallel, model, loss_fn, batch):
        self.config, self.parallel, self.model = config, parallel, model
        self.loss_fn, self.example = loss_fn, batch
        self._parts = config.training.accumulate_steps
        self.optimizer = make_optimizer(config.optimizer, config.model.d_model)
        self.abstract_state = parallel.abstract(self._init)
        make_step = partial(
            training.make_train_step,
            loss_fn,
            self.optimizer,
            config.training.seed,
            self._parts,
        )
        self._mapped = parallel.map_step(make_step, self.abstract_state)

    def _init(self):
        seed = self.config.training.seed
        return training.init_state(self.model, self.optimizer, self.example, seed)

    def init_state(self):
        """A fresh state, placed."""
        return self.parallel.init(self._init)

    def put(self, batch):
        """A batch of numpy arrays -> as the step takes it."""
        return self.parallel.put_batch(batch, self._parts)

    def __call__(self, state, batch):
        """(state, what `put` gave) -> (the next state, sums); the old state is used up."""
        return self._mapped(state, batch)

    def lower(self):
        """The step in the compiler's language; nothing is computed and no device need be there."""
        batch = self.parallel.abstract_batch(self.example, self._parts)
        return self._mapped.lower(self.abstract_state, batch)
