"""The demo model in torch: a looped transformer that reads and writes the export folder.

Why: training and evaluation need gradients; the engine needs the folder that
`tinyloop convert` imports (config.json, model.safetensors). Both meet here, so
the tensor names in this file are the ones of the export format.
Called by train.py.
"""

import json
import math
import pathlib
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn


@dataclass
class Shape:
    """Sizes of the model; the defaults are those of the demo model (3.4 M parameters)."""

    vocab: int = 4096
    width: int = 256
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    mlp: int = 768
    pre: int = 2
    loop: int = 1
    theta: float = 1e4
    eps: float = 1e-5
    context: int = 1024


class Norm(nn.Module):
    """RMSNorm, computed in float32 whatever the input is."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * self.weight).to(x.dtype)


def rotate(x, cos, sin):
    """RoPE, half-rotate form. x: [batch, heads, rows, head_dim]."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(x.dtype)


class Attention(nn.Module):
    """Causal attention with fewer key/value heads than query heads."""

    def __init__(self, s):
        super().__init__()
        self.s = s
        self.q = nn.Linear(s.width, s.heads * s.head_dim, bias=False)
        self.k = nn.Linear(s.width, s.kv_heads * s.head_dim, bias=False)
        self.v = nn.Linear(s.width, s.kv_heads * s.head_dim, bias=False)
        self.o = nn.Linear(s.heads * s.head_dim, s.width, bias=False)

    def forward(self, x, cos, sin):
        batch, rows, _ = x.shape
        s = self.s

        def split(y, heads):
            return y.view(batch, rows, heads, s.head_dim).transpose(1, 2)

        q = rotate(split(self.q(x), s.heads), cos, sin)
        k = rotate(split(self.k(x), s.kv_heads), cos, sin)
        v = split(self.v(x), s.kv_heads)
        group = s.heads // s.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(batch, rows, -1))


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, s):
        super().__init__()
        self.gate = nn.Linear(s.width, s.mlp, bias=False)
        self.up = nn.Linear(s.width, s.mlp, bias=False)
        self.down = nn.Linear(s.mlp, s.width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """One pre-norm layer."""

    def __init__(self, s):
        super().__init__()
        self.attn_norm = Norm(s.width, s.eps)
        self.attn = Attention(s)
        self.mlp_norm = Norm(s.width, s.eps)
        self.mlp = Mlp(s)

    def forward(self, x, cos, sin):
        x = x + self.attn(self.attn_norm(x), cos, sin)
        return x + self.mlp(self.mlp_norm(x))


class LoopedModel(nn.Module):
    """Prelude layers once, loop layers `loops` times, one final norm, tied head."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocab, shape.width)
        self.pre = nn.ModuleList(Layer(shape) for _ in range(shape.pre))
        self.loop = nn.ModuleList(Layer(shape) for _ in range(shape.loop))
        self.final_norm = Norm(shape.width, shape.eps)
        half = torch.arange(0, shape.head_dim, 2).float() / shape.head_dim
        angle = torch.arange(shape.context).float()[:, None] * shape.theta**-half
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                out = name.endswith(("attn.o.weight", "mlp.down.weight"))
                spread = weight.shape[1] ** -0.5 * (0.5 if out else 1)
                nn.init.normal_(weight, std=0.02 if "embed" in name else spread)

    def head(self, state):
        """Logits of normed states."""
        return F.linear(state, self.embed.weight.to(state.dtype))

    def forward(self, ids, loops, also=()):
        """Normed states by depth, for `loops` and the shallower depths in `also`."""
        rows = ids.shape[1]
        cos, sin = self.cos[:rows], self.sin[:rows]
        x = self.embed(ids) * math.sqrt(self.shape.width)
        if torch.is_autocast_enabled("cpu"):
            x = x.bfloat16()
        for layer in self.pre:
            x = layer(x, cos, sin)
        states = {}
        for depth in range(1, loops + 1):
            for layer in self.loop:
                x = layer(x, cos, sin)
            if depth == loops or depth in also:
                states[depth] = self.final_norm(x)
        return states


def save(model, folder, eos, default_loops=4, max_loops=8):
    """Write config.json and model.safetensors as `tinyloop convert` reads them."""
    s = model.shape
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "tinyloop-looped", "vocab_size": s.vocab, "hidden_size": s.width,
        "num_attention_heads": s.heads, "num_key_value_heads": s.kv_heads,
        "head_dim": s.head_dim, "intermediate_size": s.mlp, "pre_layers": s.pre,
        "loop_layers": s.loop, "coda_layers": 0, "default_loops": default_loops,
        "min_loops": 1, "max_loops": max_loops,
        "trained_loops": list(range(1, max_loops + 1)), "rms_norm_eps": s.eps,
        "rope_theta": s.theta, "tie_word_embeddings": True,
        "embedding_scale": math.sqrt(s.width), "injection": "none",
        "loop_end_norm": False, "max_position_embeddings": s.context,
        "bos_token_id": None, "eos_token_id": eos,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    tensors = {name: t.float().contiguous() for name, t in model.state_dict().items()}
    save_file(tensors, str(folder / "model.safetensors"))


def load(source):
    """The float32 model of an export folder or a .tinyloop file; raises on axes this file does not write."""
    source = pathlib.Path(source)
    shape, tensors = read_checkpoint(source) if source.is_file() else read_folder(source)
    model = LoopedModel(shape)
    model.load_state_dict(tensors)
    return model


def refuse(source):
    raise ValueError(f"{source}: only a tied model without injection, loop-end norm and coda can be trained here")


def read_folder(folder):
    """Shape and tensors of an export folder."""
    c = json.loads((folder / "config.json").read_text())
    if c["injection"] != "none" or c["loop_end_norm"] or c["coda_layers"] or not c["tie_word_embeddings"]:
        refuse(folder / "config.json")
    shape = Shape(c["vocab_size"], c["hidden_size"], c["num_attention_heads"],
                  c["num_key_value_heads"], c["head_dim"], c["intermediate_size"],
                  c["pre_layers"], c["loop_layers"], c["rope_theta"], c["rms_norm_eps"],
                  c["max_position_embeddings"])
    return shape, load_file(str(folder / "model.safetensors"))


def read_checkpoint(path):
    """Shape and tensors of a .tinyloop file (a safetensors file with a descriptor): F32, or INT8 by rows."""
    with safe_open(str(path), "pt") as file:
        d = json.loads(file.metadata()["tinyloop"])
        stored = {name: file.get_tensor(name) for name in file.keys() if not name.startswith(("_pad.", "tokenizer."))}
    if d["inject"]["kind"] != "none" or d["norms"]["loop_end"] != "none" or d["stacks"]["coda"] or not d["tie_head"]:
        refuse(path)
    s, stacks = d["dims"], d["stacks"]
    shape = Shape(s["vocab"], s["d_model"], s["n_heads"], s["n_kv_heads"], s["head_dim"], s["d_ff"],
                  stacks["pre"], stacks["loop"], d["rope"]["theta"], d["norm"]["eps"], s["max_pos"])
    tensors = {}
    for name, tensor in stored.items():
        if name.endswith(".weight"):
            scale = stored.get(name.replace(".weight", ".scale"))
            if tensor.dtype not in (torch.float32, torch.int8) or scale is not None and scale.shape[1] != 1:
                raise ValueError(f"{path}: tensor '{name}' is neither F32 nor INT8 with one scale a row")
            tensors[name] = tensor.float() if scale is None else tensor.float() * scale.float()
    return shape, tensors


def tokenizer_of(source):
    """The text of tokenizer.json of an export folder or a .tinyloop file."""
    source = pathlib.Path(source)
    if source.is_dir():
        return (source / "tokenizer.json").read_text()
    with safe_open(str(source), "pt") as file:
        return file.get_tensor("tokenizer.json").numpy().tobytes().decode()
