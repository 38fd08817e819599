// The worker of the playground: Pyodide, with leveret and pika beside it, all from the site's own files.

(() => {
  const files = new URL("./", location.href);
  const began = performance.now();

  async function load() {
    const unpacked = fetch(new URL("leveret.zip", files)).then((answer) => answer.arrayBuffer());
    const place = new URL("../pyodide/", files).href;
    const { loadPyodide } = await import(`${place}pyodide.mjs`);
    const python = await loadPyodide({ indexURL: place });
    const started = performance.now() - began;
    python.unpackArchive(await unpacked, "zip", { extractDir: "/playground" });
    python.runPython("import sys; sys.path.insert(0, '/playground')");
    return { act: python.runPython("from playground import act; act"), started };
  }

  const loading = load();
  loading.then(
    () => postMessage({ isLoaded: true }),
    (error) => postMessage({ failed: String(error) }),
  );

  onmessage = async ({ data }) => {
    try {
      const { act, started } = await loading;
      const since = performance.now();
      const report = JSON.parse(act(JSON.stringify(data)));
      const now = performance.now();
      postMessage({ ...report, times: { started, loaded: now - began, took: now - since } });
    } catch (error) {
      postMessage({ failed: String(error) });
    }
  };
})();
