"""BERT as published (Devlin et al. 2019), in its smallest size: 2 layers, d_model 128, 2 heads.

A masked language model that also predicts whether the second of two texts follows the first;
[CLS], [SEP] and token types; GELU, learned positions, biases, Adam with a linear decay. Unlike
there, the pairs are drawn once and not ten times, the longer text of a pair is cut at its end,
initial weights are not normal(0.02), control tokens are those of our vocabulary ([CLS] is BOS,
[SEP] EOS, [MASK] UNK), and the learning rate and the steps are those of a small text.
metrics.jsonl has validation_next_sentence_accuracy beside the nats per masked token.

Data: data/documents/train.txt and val.txt, a sentence per line and an empty line between documents;
or one such file, as Shakespeare's plays, whose documents are speeches:

    python train.py --config=configs/bert_tiny.py --workdir=runs/bert_tiny
    python train.py --config=configs/bert_tiny.py --workdir=runs/bert_plays \\
        --config.data.corpus=data/shakespeare.txt --config.data.train_split=all[:90%] \\
        --config.data.validation_split=all[90%:] --config.data.test_split=all[90%:]
    python eval.py --workdir=runs/bert_tiny
"""

from transformer.config import Config


def get_config() -> Config:
    config = Config(task="masked_lm")
    model = config.model
    model.d_model, model.d_ff, model.num_heads, model.num_layers = 128, 512, 2, 2
    model.activation, model.norm_epsilon = "gelu", 1e-12
    model.positions, model.max_positions = "learned", 512
    model.projection_bias = model.output_bias = model.embedding_norm = True
    model.scale_embedding = False
    model.prediction_head = model.token_types = model.next_sentence = True
    model.pooling = "pooler"
    model.attention_dropout_rate = 0.1

    config.data.corpus = "data/documents"
    config.data.validation_split = config.data.test_split = "val"
    config.data.row_length = 128
    config.tokenizer.vocab_size = 4000

    optimizer, training = config.optimizer, config.training
    optimizer.beta2, optimizer.epsilon, optimizer.weight_decay = 0.999, 1e-6, 0.01
    optimizer.clip_norm = 1.0
    optimizer.warmup_steps, optimizer.peak_learning_rate = 100, 0.001
    optimizer.decay, optimizer.final_share = "linear", 0.0
    optimizer.decay_steps = training.num_train_steps = 1500
    training.batch_tokens = 4096
    training.label_smoothing = 0.0
    training.log_every = 50
    training.eval_every = training.checkpoint_every = 250
    return config
