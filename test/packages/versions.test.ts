/** Everything that a release consists of has the version of package.json. */
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { inPackaging, manifest } from '../../packaging/build/paths.ts';

test('the Helm chart has the version of the package, and installs that version', async () => {
  const chart = parse(await readFile(inPackaging('helm/slipway/Chart.yaml'), 'utf8')) as Record<string, unknown>;
  expect({ version: chart.version, appVersion: chart.appVersion }).toEqual({
    version: manifest.version,
    appVersion: manifest.version,
  });
});
