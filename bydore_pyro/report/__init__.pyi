from .page import add_html_report as add_html_report
from .page import comparison_text as comparison_text
from .page import html_report as html_report
from .page import report_text as report_text
