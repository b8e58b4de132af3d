/**
 * The `spec` of a docker pool: the image, and which parts of the engine's host its containers may
 * use. Unknown fields are refused.
 */
import { type Static, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { workloadCommand, workloadEnv } from '../workload-spec.ts';

/** Access to one of these is control of the host. Includes everything below them. */
const hostPaths = [
  '/boot',
  '/dev',
  '/etc',
  '/proc',
  '/root',
  '/run',
  '/sys',
  '/var/run',
  '/var/lib/containers',
  '/var/lib/docker',
];

const isWithin = (path: string, directory: string) => path === directory || path.startsWith(`${directory}/`);

/**
 * Whether a mount would expose the engine's host: `/`, a path with `..`, one of the above, or a
 * parent of one.
 */
function opensHost(source: string): boolean {
  const parts = source.split('/').filter((part) => part !== '' && part !== '.');
  const path = `/${parts.join('/')}`;
  return path === '/' || parts.includes('..') || hostPaths.some((each) => isWithin(path, each) || isWithin(each, path));
}

const Mount = (source: TSchema) =>
  Type.Object(
    {
      source: source as ReturnType<typeof Type.String>,
      target: Type.String({
        pattern: '^/[^\\u0000]+$',
        maxLength: 4096,
        description: 'Where it appears in the container.',
      }),
      read_only: Type.Optional(Type.Boolean({ description: 'True unless said otherwise.' })),
    },
    { additionalProperties: false },
  );

const hostDirectory = Type.String({
  pattern: '^/[^\\u0000]*$',
  maxLength: 4096,
  description: "A path on the engine's host.",
});

const refused = 'is refused: start the server with --docker-allow-host-access if you mean it';

/**
 * `allow_host_access` is a setting of the server: containers may do anything on the engine's host.
 */
export function dockerSpecSchema({ allow_host_access }: { allow_host_access: boolean }) {
  const source = allow_host_access
    ? hostDirectory
    : Type.Refine(
        hostDirectory,
        (path) => !opensHost(path),
        () => refused,
      );
  const privileged = allow_host_access
    ? Type.Boolean()
    : Type.Refine(
        Type.Boolean(),
        (wanted) => !wanted,
        () => refused,
      );
  return Type.Object(
    {
      image: Type.String({
        minLength: 1,
        maxLength: 512,
        pattern: '^[A-Za-z0-9][A-Za-z0-9._:/@-]*$',
        description: 'As `docker pull` takes it; pulled where the engine does not have it.',
      }),
      agent: Type.Optional(
        Type.Enum(['mounted', 'image'], {
          description: "Who brings the agent: this host's own, mounted read-only (default), or the image's entrypoint.",
        }),
      ),
      command: workloadCommand,
      env: workloadEnv('Environment of the command. Handed to the agent in a file; the engine does not show it.'),
      network: Type.Optional(
        Type.String({
          pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$',
          description: "The engine's default unless named.",
        }),
      ),
      mounts: Type.Optional(Type.Array(Mount(source), { maxItems: 64 })),
      memory_mb: Type.Optional(Type.Integer({ minimum: 6, maximum: 16_777_216 })),
      cpus: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 4096 })),
      privileged: Type.Optional(privileged as ReturnType<typeof Type.Boolean>),
      docker_host: Type.Optional(
        Type.String({
          pattern: '^(unix:///[^\\u0000]+|(tcp|https?)://[A-Za-z0-9.:[\\]-]+(:[0-9]+)?/?)$',
          maxLength: 512,
          description: "The engine; the server's --docker-host unless named.",
        }),
      ),
    },
    { additionalProperties: false },
  );
}

const widest = dockerSpecSchema({ allow_host_access: true });
export type DockerSpec = Static<typeof widest>;

const validator = Compile(widest);

export const isDockerSpec = (spec: unknown): spec is DockerSpec => validator.Check(spec);

/**
 * The caller must have validated the spec; an invalid one is a bug and must not reach an engine.
 */
export function dockerSpec(spec: unknown): DockerSpec {
  if (isDockerSpec(spec)) return spec;
  throw new TypeError('the spec of a docker node was not validated against its schema');
}
