"""Redo the screenshots in docs/page.md:  python docs/make_screenshots.py

Needs the extra `dev` and a Chromium (set CHROMIUM if it is not /usr/bin/chromium).
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from server_process import serving

HERE = Path(__file__).parent / "pictures"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
SHOTS = {
    "page.png": ({"width": 1200, "height": 900}, "light", "?model=cancer95&row=0&now.bare_nuclei=4"),
    "page-phone.png": ({"width": 390, "height": 844}, "dark", "?model=german_credit&row=2"),
}


def main() -> None:
    demo = ("serve", "--demo", "--data", "cancer95", "--data", "german_credit")
    with serving(*demo) as (_, address), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, (size, scheme, query) in SHOTS.items():
            page = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(address + query)
            for part in ("proof", "alone", "reasons"):
                page.locator(f"#{part}-head").wait_for()
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(128, dither=Image.Dither.NONE).save(HERE / name, optimize=True)  # text stays sharp
            print(name, (HERE / name).stat().st_size // 1000, "kB")
        browser.close()


if __name__ == "__main__":
    main()
