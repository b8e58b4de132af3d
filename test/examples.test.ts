/** The pools under `examples/` are ones that a server takes. */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Compile } from 'typebox/compile';
import { expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { PoolDocument } from '../src/contract/pool.ts';

const root = fileURLToPath(new URL('../examples/', import.meta.url));
const pool = Compile(PoolDocument);

it.each(globSync('*.yaml', { cwd: root }))('%s', (file) => {
  const documents = parseAllDocuments(readFileSync(`${root}${file}`, 'utf8')).map((each) => each.toJS() as unknown);
  expect(documents.length).toBeGreaterThan(0);
  for (const document of documents) expect([...pool.Errors(document)]).toEqual([]);
});
