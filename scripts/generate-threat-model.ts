/**
 * Writes the threat model into SECURITY.md: `bin/run scripts/generate-threat-model.ts`. A test
 * checks that the page is up to date.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ShownBy, ThreatLine } from '../test/attacks/threat-model/lines.ts';
import { attackers } from '../test/attacks/threat-model.ts';
import { runGenerator } from './generator/run-generator.ts';

const heading = '## Threat model';
const nextHeading = '\n## ';
const introduction = `${heading}

Seven attackers: what each holds, can do and cannot do. Every line links to the tests that show it. This section is generated
from \`test/attacks/threat-model.ts\`, which names those tests one by one.

`;

const link = (file: string): string => `[${file.replace(/^.*\//, '').replace(/(\.test)?\.ts$/, '')}](${file})`;
const links = (shown_by: readonly ShownBy[]): string => [...new Set(shown_by.map(({ file }) => link(file)))].join(' ');

const row = (may: string) => (line: ThreatLine) => `| ${may} | ${line.says} | ${links(line.shown_by)} |`;

const renderThreatModel = (): string =>
  attackers
    .map(({ name, holds, can, cannot }) =>
      [
        `### ${name}`,
        '',
        `Holds ${holds}.`,
        '',
        '| | | shown by |',
        '|---|---|---|',
        ...can.map(row('can')),
        ...cannot.map(row('**cannot**')),
      ].join('\n'),
    )
    .join('\n\n');

export const page = join(import.meta.dirname, '../SECURITY.md');

export function withThreatModel(text: string): string {
  const start = text.indexOf(heading);
  if (start < 0) throw new Error(`SECURITY.md has no heading "${heading}"`);
  const end = text.indexOf(nextHeading, start + heading.length);
  const rest = end < 0 ? '' : text.slice(end);
  return `${text.slice(0, start)}${introduction}${renderThreatModel()}\n${rest}`;
}

if (import.meta.main) await runGenerator({ 'SECURITY.md': () => withThreatModel(readFileSync(page, 'utf8')) });
