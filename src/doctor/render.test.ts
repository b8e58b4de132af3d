import { expect, test } from 'vitest';
import type { LayerReport } from './examination.ts';
import { closingLines, examinationJson, exitOf, layerLine } from './render.ts';

const passedLayer: LayerReport = {
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
const failedLayer = (layer: string): LayerReport => ({
  ...passedLayer,
  layer,
  state: 'failed',
  says: 'no',
  code: 'a_code',
  title: 'It fails',
  owner_layer: 'node',
  detail_layer: layer,
  remedy: 'Repair it.',
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
] as const)('a failure in the layer %s has the exit status %s', ([layer, exit]) => {
  expect(exitOf([passedLayer, failedLayer(layer)])).toBe(exit);
});

test('shows a failure with its layer, code, owner and remedy', () => {
  const reports = [passedLayer, failedLayer('claim')];
  expect(reports.map((report) => layerLine(report, plain))).toEqual(['✔ dns        it resolves', '✖ claim      no']);
  expect(closingLines(reports, plain)).toEqual([
    'The layer claim fails: It fails.',
    'What to do: Repair it.',
    'a_code · owner: node',
  ]);
  expect(examinationJson('http://a', reports, 'corr')).toMatchObject({ ok: false, failed: { layer: 'claim' } });
});

test('says that every examined layer works if none failed', () => {
  expect(exitOf([passedLayer])).toBe('ok');
  expect(closingLines([passedLayer], plain)).toEqual(['Every examined layer works.']);
  expect(examinationJson('http://a', [passedLayer], 'corr')).toMatchObject({ ok: true, failed: null });
});
