/** Bodies that cost the server much more time than they cost the sender, before anybody is asked who they are. */
import { send } from '../../api/support/calls.ts';
import { hostileJson, hostileYaml } from '../../api/support/hostile-input.ts';
import type { Attack } from '../support/attack.ts';
import { cpuSpentOn } from '../support/server-cpu.ts';

const parsers = 'src/api/bodies/parsers.ts';
const yaml = 'src/api/bodies/yaml.ts';

/** Seconds of the server's CPU for one request; what is refused in time takes hundredths. */
const much = 1.5;
const size = 90_000;

const sessionTakesMuch = {
  file: 'src/contract/routes/tokens.ts',
  find: 'body_limit_bytes: 4096,',
  replace: 'body_limit_bytes: 1024 * 1024,',
};
const yamlEverywhere = {
  file: parsers,
  find: 'also_reads.includes(ndjson) ? also_reads : [json, ...also_reads];',
  replace: 'also_reads.includes(ndjson) ? also_reads : [...new Set([json, yaml, ...also_reads])];',
};
const yamlWithoutBounds = [
  { file: yaml, find: 'maxYamlBytes = 32 * 1024;', replace: 'maxYamlBytes = 1024 * 1024;' },
  { file: yaml, find: '  checkTokens(text);\n', replace: '' },
];

const sendYaml = (url: string, shape: string, bytes = size) =>
  send(url, 'POST', '/v1/session', {
    raw: hostileYaml[shape]?.(bytes) ?? '',
    headers: { 'content-type': 'application/yaml' },
  });

export const parserAttacks: Attack[] = [
  {
    name: '1: freezes the server by a YAML mapping of many keys at the session route',
    without: [
      sessionTakesMuch,
      yamlEverywhere,
      ...yamlWithoutBounds,
      { file: yaml, find: 'uniqueKeys: false', replace: 'uniqueKeys: true' },
    ],
    succeeds: async ({ url, pid }) => (await cpuSpentOn(pid, () => sendYaml(url, 'many keys', 2 * size))) > much,
  },
  {
    name: '1: freezes the server by YAML with many errors at the session route',
    without: [
      sessionTakesMuch,
      yamlEverywhere,
      ...yamlWithoutBounds,
      { file: yaml, find: 'prettyErrors: false', replace: 'prettyErrors: true' },
    ],
    succeeds: async ({ url, pid }) => (await cpuSpentOn(pid, () => sendYaml(url, 'closing brackets'))) > much,
  },
  {
    name: '1: has a body parsed at the session route that is larger than any token',
    without: [sessionTakesMuch],
    async succeeds({ url }) {
      const { body } = await send(url, 'POST', '/v1/session', { raw: hostileJson['a long token']?.(size) ?? '' });
      return body.code !== 'body_too_large';
    },
  },
  {
    name: '1: has a refusal repeat a name of 100 KB',
    without: [{ file: 'src/api/validation.ts', find: 'maxPathLength = 256;', replace: 'maxPathLength = 1e9;' }],
    async succeeds({ url }) {
      const { text } = await send(url, 'POST', '/v1/agent/register', {
        body: { version: '1', ['k'.repeat(100_000)]: 0 },
      });
      return text.length > 8_000;
    },
  },
];
