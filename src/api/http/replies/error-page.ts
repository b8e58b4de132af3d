/** Renders the page that a problem's `type` links to. Every error code has an anchor there. */

import { errorCatalogue } from '../../../contract/errors/errors.ts';
import type { FaultEntry } from '../../../contract/errors/find-error.ts';
import { pathFaults } from '../../../contract/errors/path-faults.ts';

const escapeHtml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
const renderProse = (text: string) => escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>');

const renderSection = (code: string, entry: FaultEntry & { status?: number }) => `<section id="${code}">
<h2><code>${code}</code> <small>${entry.status ?? ''}</small></h2>
<p>${renderProse(entry.title)}</p>
<dl>
<dt>Cause</dt><dd>${renderProse(entry.cause)}</dd>
<dt>Owner</dt><dd>${entry.owner_layer}${entry.detail_layer ? `, ${entry.detail_layer}` : ''}</dd>
<dt>What to do</dt><dd>${renderProse(entry.remedy)}</dd>
</dl>
</section>`;

const style = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #1c2430; background: #fff }
h2 { margin: 0; font-size: 1.1rem } small { color: #5a6675 }
section { padding: 1rem; border-top: 1px solid #d8dee6 } section:target { background: #fff7d6 }
dl { display: grid; grid-template-columns: 7rem 1fr; margin: 0 } dt { color: #5a6675 } dd { margin: 0 }
@media (prefers-color-scheme: dark) {
  body { color: #e6eaf0; background: #12161c } small, dt { color: #9aa7b6 } section { border-color: #2b333d } section:target { background: #3a3210 }
}`;

export const errorPage = (): string => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Slipway errors</title><style>${style}</style></head>
<body>
<h1>Slipway errors</h1>
<p>Every error is <code>application/problem+json</code> with one of these codes. <a href="/docs">The API</a></p>
${Object.entries<FaultEntry>({ ...errorCatalogue, ...pathFaults })
  .map(([code, entry]) => renderSection(code, entry))
  .join('\n')}
</body>
</html>
`;
