// Runs before the first paint, so that a dark console never flashes white. It is a separate file,
// because the page forbids inline scripts.
(() => {
  const stored = window.localStorage.getItem('mantine-color-scheme-value');
  const system = window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  const scheme = stored === 'light' || stored === 'dark' ? stored : system;
  document.documentElement.setAttribute('data-mantine-color-scheme', scheme);
})();
