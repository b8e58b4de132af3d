/** An agent launched by a driver sends its credential over plain HTTP only if that is allowed. */
import { expect, it } from 'vitest';
import { newTarget } from '../../test/support/ec2/ec2-fixture.ts';
import { agentIdentity } from './agent-config.ts';

const identityFor = (server_url: string, other_server_urls: string[]) => {
  const target = newTarget('installation-a');
  Object.assign(target.bootstrap, { server_url, other_server_urls });
  const { allow_insecure_http, other_server_urls: otherUrls } = agentIdentity(target);
  return { allow_insecure_http, otherUrls };
};

it('allows plain HTTP to other hosts only if the public URL of the server is plain HTTP', () => {
  expect(identityFor('http://172.17.0.1:7070', ['http://172.17.0.2:7070'])).toEqual({
    allow_insecure_http: true,
    otherUrls: ['http://172.17.0.2:7070'],
  });
  expect(identityFor('https://slipway.example', ['http://10.0.0.9:7070', 'https://b.example'])).toEqual({
    allow_insecure_http: false,
    otherUrls: ['https://b.example'],
  });
  expect(identityFor('http://127.0.0.1:7070', ['http://127.0.0.1:7071'])).toEqual({
    allow_insecure_http: false,
    otherUrls: ['http://127.0.0.1:7071'],
  });
});
