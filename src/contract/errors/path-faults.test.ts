import { expect, test } from 'vitest';
import { errorName, faultOfError, pathFaults } from './path-faults.ts';

test.for([
  ['ENOTFOUND', 'dns'],
  ['EAI_AGAIN', 'dns'],
  ['ECONNREFUSED', 'tcp'],
  ['EHOSTUNREACH', 'tcp'],
  ['ECONNRESET', 'tcp'],
  ['', 'tcp'],
  ['EPROTO', 'tls'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'tls'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'ca'],
  ['CERT_HAS_EXPIRED', 'ca'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'ca'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'ca'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'ca'],
  ['HPE_INVALID_CONSTANT', 'ingress'],
] as const)('%s is a fault of the layer %s', ([name, layer]) => {
  expect(pathFaults[faultOfError(name)].detail_layer).toBe(layer);
});

test('names an error after the innermost cause that has a code', () => {
  const refused = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
  const outer = Object.assign(new TypeError('fetch failed', { cause: new AggregateError([refused]) }), {
    code: 'OUTER',
  });
  expect(errorName(outer)).toBe('ECONNREFUSED');
  expect(errorName(new Error('nothing'))).toBeNull();
  expect(errorName('nothing')).toBeNull();
});
