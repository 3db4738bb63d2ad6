"""The settings of the network; the defaults are the paper's base model."""

from dataclasses import dataclass

from transformer.config.setting import Settings, count, rate, setting
from transformer.registry import ATTENTION_FUNCTIONS, BLOCKS, POSITION_ENCODINGS

DTYPES = ("float32", "bfloat16")
MOST_LAYERS, WIDEST = 1024, 2**18  # beyond these a compile does not end
ACTIVATIONS = ("relu", "swish", "gelu", "gelu_tanh", "gelu_sigmoid")


@dataclass
class ModelConfig(Settings):
    """The network (paper, sections 3 and 5.4; letters as in Table 3)."""

    d_model: int = count(512, "Width of the model, d_model.", at_most=WIDEST)
    d_ff: int = count(2048, "Width inside the feed-forward layers, d_ff.", at_most=WIDEST)
    num_heads: int = count(8, "Number of attention heads, h.")
    head_dim: int = setting(
        0, "Width of a head's queries and keys, d_k; 0: d_model / num_heads.", at_most=WIDEST
    )
    value_dim: int = setting(0, "Width of a head's values, d_v; 0: d_k.", at_most=WIDEST)
    num_layers: int = count(6, "Layers of the encoder, and of the decoder, N.", at_most=MOST_LAYERS)
    num_decoder_layers: int = setting(
        0, "Layers of the decoder of a translation model; 0: num_layers.", at_most=MOST_LAYERS
    )
    dropout_rate: float = rate(
        0.1, "Dropout of embeddings and of the output of every sub-layer.", automatic=-1
    )
    attention_dropout_rate: float = rate(
        0.0, "Dropout of the attention weights; the paper has none."
    )
    norm: str = setting(
        "post", "Layer normalisation after each sub-layer or before.", choices=("post", "pre")
    )
    norm_type: str = setting(
        "layer_norm",
        "Layer normalisation, or RMSNorm (Zhang & Sennrich 2019): without mean and shift.",
        choices=("layer_norm", "rms_norm"),
    )
    norm_epsilon: float = setting(1e-6, "ε of layer normalisation.")
    feed_forward: str = setting(
        "plain",
        "Feed-forward layers; gated: GLU (Shazeer 2020), SwiGLU with activation=swish, GEGLU with "
        "gelu: d_ff · 2/3 keeps the number of parameters.",
        choices=("plain", "gated"),
    )
    activation: str = setting(
        "relu",
        "Between the feed-forward layers; gelu_tanh and gelu_sigmoid approximate gelu.",
        choices=ACTIVATIONS,
    )
    initializer: str = setting(
        "xavier",
        "Initial weights: Xavier-uniform; gpt2: N(0, 0.02²), over √(2N) where a sub-layer ends.",
        choices=("xavier", "gpt2"),
    )
    projection_bias: bool = setting(
        False, "Biases in the projections of attention; the paper has none."
    )
    output_bias: bool = setting(False, "A bias on the scores of tokens; the paper has none.")
    scale_embedding: bool = setting(True, "Multiply embeddings by √d_model (section 3.4).")
    embedding_norm: bool = setting(
        False, "Layer normalisation of the sum of embedding and position; the paper has none."
    )
    prediction_head: bool = setting(
        False, "A dense layer and a normalisation before the scores of a masked LM, as in BERT."
    )
    pooling: str = setting(
        "mean",
        "What a classifier sees: the mean over the positions, the first position (of images a "
        "class token), or that through a dense layer with tanh, BERT's pooler.",
        choices=("mean", "first", "pooler"),
    )
    next_sentence: bool = setting(
        False,
        "A masked LM reads documents, empty lines between them, as pairs and also predicts whether "
        "the second text follows the first, as BERT; needs token_types and pooling=pooler.",
    )
    token_types: bool = setting(
        False,
        "Read texts as BERT does: [CLS] in front, and in a pair, which a tab divides, a learned "
        "vector added to the tokens of either text.",
    )
    positions: str = setting(
        "sinusoidal",
        "Position encoding: added to the embedding, or acting in self-attention (rotary, relative, "
        "t5, alibi), or none.",
        choices=POSITION_ENCODINGS,
    )
    max_positions: int = setting(
        512,
        "Number of learned positions; with attention=location the longest source.",
        at_least=1,
        at_most=2**20,
    )
    embedding_sharing: str = setting(
        "all",
        "Embeddings that are one matrix: source, target and softmax; target and softmax; none.",
        choices=("all", "target", "none"),
    )
    attention: str = setting(
        "scaled_dot_product", "Attention function.", choices=ATTENTION_FUNCTIONS
    )
    block: str = setting("transformer", "What a layer is made of.", choices=BLOCKS)
    segment_length: int = setting(
        64, "With block=transformer_xl: tokens of a segment; a row has several.", at_least=1
    )
    memory_length: int = setting(
        64, "With block=transformer_xl: positions before a segment that it sees.", at_least=1
    )
    evaluation_memory: int = setting(
        0, "memory_length in evaluation and generation; 0: as in training."
    )
    attention_block: int = setting(
        64,
        "With attention=local or strided: how many positions a query sees on either side; strided "
        "also sees every so many positions, and fixed has blocks of so many.",
        at_least=1,
    )
    dtype: str = setting(
        "float32", "Computing type; parameters are float32.", choices=DTYPES, automatic="auto"
    )

    @property
    def widths_of_head(self) -> tuple[int, int]:
        """(d_k, d_v): the widths of a head's queries and keys, and of its values."""
        key_dim = self.head_dim or self.d_model // self.num_heads
        return key_dim, self.value_dim or key_dim

    @property
    def is_bounded(self) -> bool:
        """Whether it has weights for `max_positions` positions of a source, and no more."""
        return self.positions == "learned" or self.attention == "location"

    @property
    def has_memory(self) -> bool:
        """Whether a language model sees the states of earlier segments."""
        return self.block == "transformer_xl"

    def memory(self, *, deterministic: bool) -> int:
        """Returns how many positions before a segment it sees, in training or in evaluation."""
        return (deterministic and self.evaluation_memory) or self.memory_length

    def depth(self, *, is_decoder: bool) -> int:
        """Returns the number of layers of the encoder, or of a decoder that attends to it."""
        return (is_decoder and self.num_decoder_layers) or self.num_layers
