from .algorithm1 import search_by_linear_evidence as search_by_linear_evidence
from .matching import search as search
from .matching import search_in as search_in
from .trials import DIGITS as DIGITS
from .trials import TrialPlan as TrialPlan
from .trials import answered as answered
from .trials import plain_problem as plain_problem
from .trials import trial_plan as trial_plan
