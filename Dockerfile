# The page and its API, from a wheel that is built here; docs/deploy.md says how to run it.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim
ARG EXTRAS=web
# LightGBM, in the extra `boosting`, needs the system's OpenMP
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
WORKDIR /install
COPY constraints.txt ./
# torch first, without CUDA
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' constraints.txt)"
COPY --from=build /wheels ./
RUN pip install --no-cache-dir --constraint constraints.txt "$(echo /install/*.whl)[${EXTRAS}]"
RUN useradd --system --uid 10001 --no-create-home grace
USER 10001
WORKDIR /
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["grace", "serve", "--host", "0.0.0.0", "--port", "8000"]
# an explainer that is mounted, read-only
CMD ["/model"]
