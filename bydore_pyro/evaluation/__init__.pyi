from .config import EvaluationConfig as EvaluationConfig
from .evaluate import average_of as average_of
from .evaluate import evaluate_model as evaluate_model
from .evaluate import load_model as load_model
from .text import context_of as context_of
