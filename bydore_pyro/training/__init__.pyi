from .config import TargetConfig as TargetConfig
from .stages import read_stages as read_stages
from .training import train_target as train_target
