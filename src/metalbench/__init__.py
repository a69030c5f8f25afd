"""metalbench: the same machine-learning work through PyTorch, JAX, MLX and TensorFlow, checked and measured alike."""

__version__ = "0.1.0"
