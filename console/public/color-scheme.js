// Runs before the first paint, so that a dark console never flashes white. A file of its own, because a page that
// forbids inline scripts is the safer page.
(() => {
  const stored = window.localStorage.getItem('mantine-color-scheme-value');
  const system = window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  const scheme = stored === 'light' || stored === 'dark' ? stored : system;
  document.documentElement.setAttribute('data-mantine-color-scheme', scheme);
})();
