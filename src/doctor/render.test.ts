import { expect, test } from 'vitest';
import type { LayerReport } from './examination.ts';
import { closingLines, examinationJson, exitOf, layerLine } from './render.ts';

const well: LayerReport = {
  layer: 'dns',
  state: 'ok',
  says: 'it resolves',
  code: null,
  title: null,
  owner_layer: null,
  detail_layer: null,
  remedy: null,
  seconds: 0,
};
const failing = (layer: string): LayerReport => ({
  ...well,
  layer,
  state: 'failed',
  says: 'no',
  code: 'a_code',
  title: 'It fails',
  owner_layer: 'node',
  detail_layer: layer,
  remedy: 'Mend it.',
});
const plain = (_tone: string, text: string) => text;

test.for([
  ['dns', 'unreachable'],
  ['ca', 'unreachable'],
  ['ingress', 'unreachable'],
  ['store', 'unreachable'],
  ['credential', 'refused'],
  ['fence', 'refused'],
  ['request', 'refused'],
  ['heartbeat', 'failed'],
  ['claim', 'failed'],
  ['result', 'failed'],
] as const)('%s exits with %s', ([layer, exit]) => {
  expect(exitOf([well, failing(layer)])).toBe(exit);
});

test('shows a failure with its layer, code, owner and remedy', () => {
  const reports = [well, failing('claim')];
  expect(reports.map((report) => layerLine(report, plain))).toEqual(['✔ dns        it resolves', '✖ claim      no']);
  expect(closingLines(reports, plain)).toEqual([
    'It fails in the layer claim: It fails.',
    'What to do: Mend it.',
    'a_code · owner: node',
  ]);
  expect(examinationJson('http://a', reports, 'corr')).toMatchObject({ ok: false, failed: { layer: 'claim' } });
});

test('says that all layers are well', () => {
  expect(exitOf([well])).toBe('ok');
  expect(closingLines([well], plain)).toEqual(['Every layer that was asked is well.']);
  expect(examinationJson('http://a', [well], 'corr')).toMatchObject({ ok: true, failed: null });
});
