/**
 * The `spec` of an aks pool: the cluster of each node. Azure's own limits are checked here, before
 * any request.
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
      description: '1 to 12 lower-case letters and digits, a letter first.',
    }),
    mode: Type.Enum(['System', 'User'], { description: 'A cluster needs at least one System pool.' }),
    vm_size: Type.String({ pattern: '^[A-Za-z][A-Za-z0-9_-]{1,63}$', description: 'Like Standard_D4s_v5.' }),
    count: Type.Integer({
      minimum: 0,
      maximum: 1000,
      description: 'How many machines; a System pool has at least one.',
    }),
  },
  { additionalProperties: false },
);

type AgentPool = Static<typeof AgentPool>;

const distinct = (pools: AgentPool[]) => new Set(pools.map(({ name }) => name)).size === pools.length;
const hasSystem = (pools: AgentPool[]) => pools.some(({ mode }) => mode === 'System');
const systemIsUp = (pools: AgentPool[]) => pools.every(({ mode, count }) => mode === 'User' || count > 0);

const AgentPools = Type.Refine(
  Type.Refine(
    Type.Refine(Type.Array(AgentPool, { minItems: 1, maxItems: 100 }), distinct, () => 'must have different names'),
    hasSystem,
    () => 'must have at least one of mode System',
  ),
  systemIsUp,
  () => 'of mode System must have a count of at least 1',
);

const Role = (scope: TSchema) =>
  Type.Object(
    {
      role_definition_id: Type.String({
        pattern: `^${roleDefinition}$`,
        description: 'The id of a role, or its whole path.',
      }),
      principal_id: Type.String({ pattern: `^${uuid}$`, description: 'The object id of who is given the role.' }),
      principal_type: Type.Optional(Type.Enum(['User', 'Group', 'ServicePrincipal', 'ForeignGroup', 'Device'])),
      scope: Type.Optional(scope as ReturnType<typeof Type.String>),
    },
    { additionalProperties: false },
  );

const anyScope = Type.String({
  pattern: `^/subscriptions/${uuid}(?:/[A-Za-z0-9._()-]+)*$`,
  maxLength: 1024,
  description: 'On what; the cluster itself unless named.',
});

const tagName = `^(?!${tagPrefix.replaceAll('.', '\\.')})(?!microsoft|azure|windows)[^<>%&\\\\?/\\u0000-\\u001f]{1,512}$`;

/**
 * `allow_roles_anywhere` is a setting of the server: its account may assign roles on more than its
 * clusters.
 */
export function aksSpecSchema({ allow_roles_anywhere }: { allow_roles_anywhere: boolean }) {
  const scope = allow_roles_anywhere
    ? anyScope
    : Type.Refine(
        anyScope,
        () => false,
        () => 'is refused: start the server with --azure-allow-roles-anywhere if you mean it',
      );
  return Type.Object(
    {
      subscription_id: Type.String({ pattern: `^${uuid}$` }),
      location: Type.String({ pattern: '^[a-z0-9]{2,64}$', description: 'Like westeurope.' }),
      resource_group: Type.Optional(
        Type.String({
          pattern: '^[A-Za-z0-9_()-]([A-Za-z0-9._()-]{0,88}[A-Za-z0-9_()-])?$',
          description: "Somebody's, which is neither made nor deleted; each cluster has one of its own unless named.",
        }),
      ),
      kubernetes_version: Type.Optional(
        Type.String({ pattern: '^[0-9]+\\.[0-9]+(\\.[0-9]+)?$', description: "Azure's default unless named." }),
      ),
      pools: AgentPools,
      roles: Type.Optional(Type.Array(Role(scope), { maxItems: 32, description: 'Given once the cluster exists.' })),
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

const widest = aksSpecSchema({ allow_roles_anywhere: true });
export type AksSpec = Static<typeof widest>;
export type AksRole = NonNullable<AksSpec['roles']>[number];

const validator = Compile(widest);

export const isAksSpec = (spec: unknown): spec is AksSpec => validator.Check(spec);

/** The caller must have validated the spec; an invalid one is a bug and must not reach Azure. */
export function aksSpec(spec: unknown): AksSpec {
  if (isAksSpec(spec)) return spec;
  throw new TypeError('the spec of an aks node was not validated against its schema');
}
