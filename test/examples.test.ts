/** Every pool document under `examples/` fits the pool schema and the schema of its driver. */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Compile } from 'typebox/compile';
import { expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { systemClock } from '../src/base/clock.ts';
import { readSettings } from '../src/base/settings/settings.ts';
import { createLog } from '../src/base/telemetry/log.ts';
import { PoolDocument } from '../src/contract/pool.ts';
import { openDrivers } from '../src/server/open-drivers.ts';

const root = fileURLToPath(new URL('../examples/', import.meta.url));
const pool = Compile(PoolDocument);
const drivers = openDrivers({
  settings: readSettings([], {}),
  log: createLog({ level: 'silent' }),
  data_dir: root,
  db: { query: async () => [] } as never,
  clock: systemClock,
  installation: { installation_id: 'examples' },
  agent_bundle: '',
});

it.each(globSync('*.yaml', { cwd: root }))('a server accepts the pools in %s', (file) => {
  const documents = parseAllDocuments(readFileSync(`${root}${file}`, 'utf8')).map((each) => each.toJS() as unknown);
  expect(documents.length).toBeGreaterThan(0);
  for (const document of documents) {
    expect([...pool.Errors(document)]).toEqual([]);
    const { driver, spec = {} } = document as PoolDocument;
    const schema = drivers.get(driver)?.spec_schema;
    if (!schema) return expect.fail(`there is no driver ${driver}`);
    expect([...Compile(schema).Errors(spec)]).toEqual([]);
  }
});
