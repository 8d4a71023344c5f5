"use strict";
// Asks for what the page shows, and then begins it: report.js reads #data, and calls present.js.
(async () => {
  const status = document.getElementById("loading");
  document.body.dataset.loading = "true";
  try {
    const answer = await fetch(`data.json${location.search}`), text = await answer.text();
    if (!answer.ok) throw new Error(text);
    document.getElementById("data").textContent = text;
    status.remove();
    delete document.body.dataset.loading;
    for (const name of ["present.js", "report.js"]) {
      const script = document.createElement("script");
      script.src = name;
      script.async = false;  // one after the other
      document.body.append(script);
    }
  } catch (error) {
    status.textContent = `Nothing can be shown: ${error.message.trim()}`;
    document.querySelector("main").hidden = true;
    document.body.dataset.failed = "true";
  }
})();
