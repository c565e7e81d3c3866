"""Opens what HtmlReport.ForTheBrowser writes in Chromium, without a window, and looks at the page that its script made.

    python read_html_report.py UTILS_TEST_EXECUTABLE

Ends with status 77, which counts as skipped, where there is no Chromium.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if browser is None:
    print("SKIPPED: there is no Chromium to open the report in; apt-get install chromium")
    sys.exit(77)

with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], "--gtest_filter=HtmlReport.ForTheBrowser"], check=True,
                   env={**os.environ, "INFINI_TRAIN_TEST_OUTPUT": folder})
    page = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--user-data-dir={folder}/profile",
         "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000", "--dump-dom",
         f"file://{folder}/report.html"],
        check=True, capture_output=True, text=True, timeout=240).stdout

drawn = page[page.index('<main id="report">'):page.index("</main>")]
assert "<h1>A &lt;/script&gt;&lt;b&gt; title</h1>" in drawn, drawn[:600]
assert "<p>of a test</p>" in drawn
# Three layers and twelve steps of outputs; one row each for the gradient, the update and the parameter.
assert len(re.findall(r'<rect class="cell"', drawn)) == 6 * 12, len(re.findall(r'<rect class="cell"', drawn))
assert len(re.findall(r'class="heatmap"', drawn)) == 4
assert len(re.findall(r'<path class="ridge"', drawn)) == 4 * 12
assert len(re.findall(r"<tr[ >]", drawn)) == 1 + 6
assert "NaN" not in drawn.replace("held 1 NaN and", "") and "undefined" not in drawn and "Infinity" not in drawn
for sentence in ("The outputs of out held 1 NaN and 0 infinite values among 3 at step 7, for the first time.",
                 "most of its units are dead for these inputs."):
    assert sentence in drawn, sentence
# The one cell whose layer held a NaN stands out.
assert drawn.count('fill="var(--bad)"') == 1
print("Chromium draws the report")
