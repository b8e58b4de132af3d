/** Bodies that cost the server much more than the sender, before authentication. */
import { send } from '../../api/support/calls.ts';
import { hostileJson } from '../../api/support/hostile-input.ts';
import type { Attack } from '../support/attack.ts';

const size = 90_000;

const sessionBodyLimit = {
  file: 'src/contract/routes/tokens.ts',
  find: 'body_limit_bytes: 4096,',
  replace: 'body_limit_bytes: 1024 * 1024,',
};

export const parserAttacks: Attack[] = [
  {
    name: 'sends YAML to the session route',
    without: [
      {
        file: 'src/api/http/bodies/parsers.ts',
        find: 'extra_content_types.includes(ndjson) ? extra_content_types : [json, ...extra_content_types];',
        replace:
          'extra_content_types.includes(ndjson) ? extra_content_types : [...new Set([json, yaml, ...extra_content_types])];',
      },
    ],
    async succeeds({ url }) {
      const headers = { 'content-type': 'application/yaml' };
      const { body } = await send(url, 'POST', '/v1/session', { raw: 'token: guessed', headers });
      return body.code !== 'unsupported_media_type';
    },
  },
  {
    name: 'sends a body larger than any token to the session route',
    without: [sessionBodyLimit],
    async succeeds({ url }) {
      const { body } = await send(url, 'POST', '/v1/session', { raw: hostileJson['a long token']?.(size) ?? '' });
      return body.code !== 'body_too_large';
    },
  },
  {
    name: 'makes the server repeat a field name of 100 KB in its refusal',
    without: [{ file: 'src/api/http/validation.ts', find: 'maxPathLength = 256;', replace: 'maxPathLength = 1e9;' }],
    async succeeds({ url }) {
      const { text } = await send(url, 'POST', '/v1/agent/register', {
        body: { version: '1', ['k'.repeat(100_000)]: 0 },
      });
      return text.length > 8_000;
    },
  },
];
