/**
 * Defines the `spec` of an aks pool, which describes the cluster of each node. The schema contains
 * Azure's own limits, so a wrong value is refused before any request to Azure.
 */
import { type Static, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { tagPrefix } from './tags.ts';

const uuid = '[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}';
const roleDefinition = `(?:(?:/subscriptions/${uuid})?/providers/Microsoft\\.Authorization/roleDefinitions/)?${uuid}`;

const AgentPool = Type.Object(
  {
    name: Type.String({
      pattern: '^[a-z][a-z0-9]{0,11}$',
      description: '1 to 12 lower-case letters and digits; starts with a letter.',
    }),
    mode: Type.Enum(['System', 'User'], { description: 'A cluster needs at least one System pool.' }),
    vm_size: Type.String({
      pattern: '^[A-Za-z][A-Za-z0-9_-]{1,63}$',
      description: 'A VM size such as Standard_D4s_v5.',
    }),
    count: Type.Integer({
      minimum: 0,
      maximum: 1000,
      description: 'The number of machines; at least one in a System pool.',
    }),
  },
  { additionalProperties: false },
);

type AgentPool = Static<typeof AgentPool>;

const haveDistinctNames = (pools: AgentPool[]) => new Set(pools.map(({ name }) => name)).size === pools.length;
const includeSystemPool = (pools: AgentPool[]) => pools.some(({ mode }) => mode === 'System');
const haveSystemMachines = (pools: AgentPool[]) => pools.every(({ mode, count }) => mode === 'User' || count > 0);

const AgentPools = Type.Refine(
  Type.Refine(
    Type.Refine(
      Type.Array(AgentPool, { minItems: 1, maxItems: 100 }),
      haveDistinctNames,
      () => 'must have different names',
    ),
    includeSystemPool,
    () => 'must include at least one pool of mode System',
  ),
  haveSystemMachines,
  () => 'of mode System must have a count of at least 1',
);

const Role = (scope: TSchema) =>
  Type.Object(
    {
      role_definition_id: Type.String({
        pattern: `^${roleDefinition}$`,
        description: 'The id or the full path of a role.',
      }),
      principal_id: Type.String({
        pattern: `^${uuid}$`,
        description: 'The object id of the principal that gets the role.',
      }),
      principal_type: Type.Optional(Type.Enum(['User', 'Group', 'ServicePrincipal', 'ForeignGroup', 'Device'])),
      scope: Type.Optional(scope as ReturnType<typeof Type.String>),
    },
    { additionalProperties: false },
  );

const anyScope = Type.String({
  pattern: `^/subscriptions/${uuid}(?:/[A-Za-z0-9._()-]+)*$`,
  maxLength: 1024,
  description: 'The resource that the role applies to. The default is the cluster.',
});

const tagName = `^(?!${tagPrefix.replaceAll('.', '\\.')})(?!microsoft|azure|windows)[^<>%&\\\\?/\\u0000-\\u001f]{1,512}$`;

/**
 * `allow_roles_anywhere` is a server setting. It lets a pool assign roles on resources other than
 * its clusters.
 */
export function aksSpecSchema({ allow_roles_anywhere }: { allow_roles_anywhere: boolean }) {
  const scope = allow_roles_anywhere
    ? anyScope
    : Type.Refine(
        anyScope,
        () => false,
        () => 'is refused: start the server with --azure-allow-roles-anywhere to allow it',
      );
  return Type.Object(
    {
      subscription_id: Type.String({ pattern: `^${uuid}$` }),
      location: Type.String({ pattern: '^[a-z0-9]{2,64}$', description: 'A region such as westeurope.' }),
      resource_group: Type.Optional(
        Type.String({
          pattern: '^[A-Za-z0-9_()-]([A-Za-z0-9._()-]{0,88}[A-Za-z0-9_()-])?$',
          description:
            'An existing group, which is never created or deleted. By default each cluster gets its own group.',
        }),
      ),
      kubernetes_version: Type.Optional(
        Type.String({ pattern: '^[0-9]+\\.[0-9]+(\\.[0-9]+)?$', description: "The default is Azure's own default." }),
      ),
      pools: AgentPools,
      roles: Type.Optional(
        Type.Array(Role(scope), { maxItems: 32, description: 'Roles to assign when the cluster exists.' }),
      ),
      tags: Type.Optional(
        Type.Record(Type.String({ pattern: tagName }), Type.String({ maxLength: 256 }), {
          maxProperties: 40,
          additionalProperties: false,
        }),
      ),
    },
    { additionalProperties: false },
  );
}

const widestSchema = aksSpecSchema({ allow_roles_anywhere: true });
export type AksSpec = Static<typeof widestSchema>;
export type AksRole = NonNullable<AksSpec['roles']>[number];

const validator = Compile(widestSchema);

export const isAksSpec = (spec: unknown): spec is AksSpec => validator.Check(spec);

/** The caller must have validated the spec; an invalid one is a bug and must not reach Azure. */
export function aksSpec(spec: unknown): AksSpec {
  if (isAksSpec(spec)) return spec;
  throw new TypeError('the spec of an aks node does not match its schema');
}
