from .page import add_html_report as add_html_report
from .page import html_report as html_report
from .text import report_text as report_text
