from .config import EvaluationConfig as EvaluationConfig
from .evaluate import evaluate_model as evaluate_model
from .table import scores_table as scores_table
