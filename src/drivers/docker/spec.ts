/**
 * The schema of a docker pool's `spec`: the image, and which parts of the engine's host the
 * containers may use.
 */
import { type Static, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { workloadCommand, workloadEnv } from '../workload-spec.ts';

/** A container that can access one of these directories, or a path below, controls the host. */
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
 * True for `/`, a path with `..`, and every path inside or above one of the host paths.
 */
function exposesHost(source: string): boolean {
  const parts = source.split('/').filter((part) => part !== '' && part !== '.');
  const path = `/${parts.join('/')}`;
  return (
    path === '/' ||
    parts.includes('..') ||
    hostPaths.some((hostPath) => isWithin(path, hostPath) || isWithin(hostPath, path))
  );
}

const Mount = (source: TSchema) =>
  Type.Object(
    {
      source: source as ReturnType<typeof Type.String>,
      target: Type.String({
        pattern: '^/[^\\u0000]+$',
        maxLength: 4096,
        description: 'The path in the container.',
      }),
      read_only: Type.Optional(Type.Boolean({ description: 'Default: true.' })),
    },
    { additionalProperties: false },
  );

const hostDirectory = Type.String({
  pattern: '^/[^\\u0000]*$',
  maxLength: 4096,
  description: "A path on the engine's host.",
});

const needsHostAccess = 'is refused: start the server with --docker-allow-host-access to allow it';

/** With `allow_host_access`, a server setting, containers may do anything on the engine's host. */
export function dockerSpecSchema({ allow_host_access }: { allow_host_access: boolean }) {
  const source = allow_host_access
    ? hostDirectory
    : Type.Refine(
        hostDirectory,
        (path) => !exposesHost(path),
        () => needsHostAccess,
      );
  const privileged = allow_host_access
    ? Type.Boolean()
    : Type.Refine(
        Type.Boolean(),
        (isPrivileged) => !isPrivileged,
        () => needsHostAccess,
      );
  return Type.Object(
    {
      image: Type.String({
        minLength: 1,
        maxLength: 512,
        pattern: '^[A-Za-z0-9][A-Za-z0-9._:/@-]*$',
        description: 'An image name as for `docker pull`. The engine pulls the image if it does not have it.',
      }),
      agent: Type.Optional(
        Type.Enum(['mounted', 'image'], {
          description:
            "Where the agent comes from: `mounted` read-only from this host (default), or the image's entrypoint.",
        }),
      ),
      command: workloadCommand,
      env: workloadEnv('Environment of the command. The agent gets it in a file, so the engine does not show it.'),
      network: Type.Optional(
        Type.String({
          pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$',
          description: "Default: the engine's default network.",
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
          description: "Address of the engine. Default: the server's --docker-host.",
        }),
      ),
    },
    { additionalProperties: false },
  );
}

const unrestrictedSchema = dockerSpecSchema({ allow_host_access: true });
export type DockerSpec = Static<typeof unrestrictedSchema>;

const validator = Compile(unrestrictedSchema);

export const isDockerSpec = (spec: unknown): spec is DockerSpec => validator.Check(spec);

/** Throws if the spec does not match the schema: that is a bug, and must not reach an engine. */
export function dockerSpec(spec: unknown): DockerSpec {
  if (isDockerSpec(spec)) return spec;
  throw new TypeError('the spec of a docker node does not match its schema');
}
