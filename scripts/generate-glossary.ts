/**
 * Writes docs/glossary.md from src/lifecycle/glossary.ts and, for the statuses,
 * src/lifecycle/model/states.ts: `bin/run scripts/generate-glossary.ts`.
 */
import { join } from 'node:path';
import { type GlossaryEntry, glossary } from '../src/lifecycle/glossary.ts';
import { allocationStatuses, nodeStatuses, type StatusDeclaration } from '../src/lifecycle/model/states.ts';
import { runGenerator } from './generator/run-generator.ts';

const line = (...cells: string[]) => `| ${cells.join(' | ')} |`;

const words = (entries: Record<string, GlossaryEntry>) =>
  Object.entries(entries).map(([word, { means, formerly = [] }]) => line(`**${word}**`, means, formerly.join(', ')));

const statuses = (table: Record<string, StatusDeclaration>) =>
  Object.entries(table).map(([name, { means }]) => line(`\`${name}\``, means));

export const glossaryPath = join(import.meta.dirname, '../docs/glossary.md');

export const glossaryPage = (): string => `# Glossary

For everybody who reads a screen, an error, the code or these pages: each word has one meaning. This page is generated from
\`src/lifecycle/glossary.ts\`, which the console's tooltips use too, and for the statuses from
\`src/lifecycle/model/states.ts\`.

| word | means | no longer |
|---|---|---|
${words(glossary).join('\n')}

## Statuses of a node

| status | means |
|---|---|
${statuses(nodeStatuses).join('\n')}

## Statuses of an allocation

| status | means |
|---|---|
${statuses(allocationStatuses).join('\n')}
`;

if (import.meta.main) await runGenerator({ 'docs/glossary.md': glossaryPage });
