import { Compile } from 'typebox/compile';
import { describe, expect, it } from 'vitest';
import { dockerSpecSchema } from './spec.ts';

const restricted = Compile(dockerSpecSchema({ allow_host_access: false }));
const unrestricted = Compile(dockerSpecSchema({ allow_host_access: true }));
const image = 'worker:1';
const specWithMount = (source: string) => ({ image, mounts: [{ source, target: '/data' }] });

it.each([
  { image },
  { image: 'registry.example.com:5000/team/worker@sha256:abc', agent: 'image' },
  { image, command: ['sh', '-c', 'true'], env: { A: 'b' }, network: 'host', memory_mb: 64, cpus: 0.5 },
  { image, docker_host: 'unix:///run/podman/podman.sock' },
  { image, docker_host: 'tcp://engine.example.com:2376' },
  { image, privileged: false },
  specWithMount('/srv/data'),
  specWithMount('/var/lib/models'),
])('accepts %o', (spec) => {
  expect(restricted.Check(spec)).toBe(true);
});

it.each([
  {},
  { image: '' },
  { image: '-v /:/host' },
  { image, unknown: 1 },
  { image, agent: 'none' },
  { image, env: { SLIPWAY_NODE_ID: 'x' } },
  { image, network: 'container:other; rm' },
  { image, docker_host: 'file:///etc/passwd' },
  { image, docker_host: 'tcp://user:secret@engine:2376' },
])('refuses %o', (spec) => {
  expect(restricted.Check(spec)).toBe(false);
  expect(unrestricted.Check(spec)).toBe(false);
});

describe('access to the host', () => {
  it.each([
    { image, privileged: true },
    ...[
      '/',
      '//',
      '/.',
      '/etc',
      '/etc/',
      '/etc/ssl',
      '/srv/../etc',
      '/var',
      '/var/run/docker.sock',
      '/var/lib',
      '/proc/1',
    ].map(specWithMount),
  ])('refuses %o unless the server allows it', (spec) => {
    expect(restricted.Check(spec)).toBe(false);
    const [error] = restricted.Errors(spec);
    expect(error?.message).toContain('--docker-allow-host-access');
    expect(unrestricted.Check(spec)).toBe(true);
  });
});
