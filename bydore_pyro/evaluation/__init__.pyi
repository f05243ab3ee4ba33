from .config import EvaluationConfig as EvaluationConfig
from .evaluate import evaluate_model as evaluate_model
from .evaluate import require_lm_eval as require_lm_eval
from .table import scores_table as scores_table
