/**
 * Writes the tables of docs/reference/retention.md from the classes of the code: `bin/run
 * scripts/generate-retention.ts`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  defaultRetentionSeconds,
  keptSeconds,
  otherTables,
  type TimedClass,
  timedClasses,
} from '../src/lifecycle/limits/retention-classes.ts';
import { fillSections } from './generator/marked-sections.ts';
import { runGenerator } from './generator/run-generator.ts';

const row = (...cells: string[]) => `| ${cells.join(' | ')} |`;
const table = (head: string[], rows: string[][]) =>
  [row(...head), row(...head.map(() => '---')), ...rows.map((cells) => row(...cells))].join('\n');
const code = (text: string) => `\`${text}\``;
const days = (seconds: number) => `${seconds / 86_400} ${seconds === 86_400 ? 'day' : 'days'}`;

const sections = {
  classes: () =>
    table(
      ['class', 'tables', 'kept', 'from', 'what stays longer'],
      (Object.keys(timedClasses) as TimedClass[]).map((name) => {
        const { tables, since, stays } = timedClasses[name];
        const hasSetting = name in defaultRetentionSeconds;
        const kept = days(keptSeconds(name, defaultRetentionSeconds));
        return [
          hasSetting ? code(name) : name,
          tables.map(code).join(', '),
          hasSetting ? kept : `${kept}, fixed`,
          since,
          stays,
        ];
      }),
    ),
  'other-tables': () =>
    table(
      ['table', 'kept'],
      Object.entries(otherTables).map(([name, kept]) => [code(name), kept]),
    ),
};

export const retentionPath = join(import.meta.dirname, '../docs/reference/retention.md');

export const withRetention = (page: string): string => fillSections(retentionPath, page, sections);

if (import.meta.main)
  await runGenerator({ 'docs/reference/retention.md': () => withRetention(readFileSync(retentionPath, 'utf8')) });
