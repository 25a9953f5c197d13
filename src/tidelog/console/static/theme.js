// Dark or light before anything is painted: what was chosen here, else what the system prefers.
// A classic script, so that it runs before the style sheet is applied to an empty page.
(function () {
  const chosen = localStorage.getItem("tidelog-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
