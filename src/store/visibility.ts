/**
 * The SQL predicates that keep a tenant from reading rows of another. Every such predicate is in
 * this file. A read of the whole fleet has no predicate, so it and the read of a tenant are
 * different statements with their own plans.
 *
 * A tenant may act only on its own allocations and operations (operations/runtime/caller.ts).
 * Routes that act on nodes admit no tenant: their access has `tenants: 'none'`
 * (contract/security/access.ts), enforced by `authorize` in api/http/auth.ts.
 */
import type { Visibility } from '../lifecycle/visibility.ts';
import type { Bind } from './pg/walk.ts';

/** Returns conditions to join with `and`; none for the whole fleet. */
const forTenant = (visibility: Visibility, bind: Bind, condition: (tenant: string) => string): string[] =>
  visibility.kind === 'fleet' ? [] : [condition(bind(visibility.tenant))];

/** Joins conditions for appending to an existing condition. */
export const andAll = (conditions: readonly string[]): string => conditions.map((each) => `and ${each}`).join(' ');

/** Selects allocations or operations of the tenant. `table` is their alias in the statement. */
export const ownRows = (visibility: Visibility, table: string, bind: Bind): string[] =>
  forTenant(visibility, bind, (tenant) => `${table}.tenant = ${tenant}`);

/** Selects nodes that the tenant holds now. Requires the join `withHolder` of rows/nodes.ts. */
export const heldNodes = (visibility: Visibility, bind: Bind): string[] =>
  forTenant(
    visibility,
    bind,
    (tenant) => `holder.allocation_id is not null
      and exists (
        select 1 from allocations mine
        where mine.allocation_id = holder.allocation_id
          and mine.tenant = ${tenant}
      )`,
  );

/** Selects nodes that the tenant holds or ever held. `node_id` is an SQL expression. */
export const everHeldNodes = (visibility: Visibility, node_id: string, bind: Bind): string[] =>
  forTenant(
    visibility,
    bind,
    (tenant) => `exists (
      select 1 from allocations own
      where own.node_id = ${node_id}
        and own.tenant = ${tenant}
    )`,
  );

/**
 * Selects allocations by which a tenant may hold a node, using the index `allocations_held`. Some
 * may no longer hold their node, so the caller must also check the present holder.
 */
export const mayHoldNode = (tenant: string): string =>
  `tenant = ${tenant} and status <> 'released' and node_id is not null`;

/**
 * Selects facts, tasks or log chunks that name an allocation of the tenant. Looks up the tenant of
 * the allocation for each row.
 */
export const ofOwnAllocation = (visibility: Visibility, table: string, bind: Bind): string[] =>
  forTenant(
    visibility,
    bind,
    (tenant) => `exists (
      select 1 from allocations own
      where own.allocation_id = ${table}.allocation_id
        and own.tenant = ${tenant}
    )`,
  );

/**
 * Selects facts about allocations of the tenant. If all facts are about the allocation `only`, its
 * tenant is looked up once. This is a scalar subquery, because with a join a prepared plan would
 * read all allocations of the tenant.
 */
export const ownFacts = (visibility: Visibility, only: string | undefined, bind: Bind): string[] =>
  forTenant(
    visibility,
    bind,
    (tenant) => `(
      select tenant from allocations
      where allocations.allocation_id = ${only === undefined ? 'evidence.allocation_id' : bind(only)}
    ) = ${tenant}`,
  );

/** Selects tokens for the whole installation. */
export const ofAllTenants = (token: string): string => `${token}.tenant is null`;

/** Selects allocations of the same tenant. Both arguments are aliases in the statement. */
export const ofSameTenant = (allocation: string, other: string): string => `${allocation}.tenant = ${other}.tenant`;

/**
 * Selects boot stages that the tenant may see. If other tenants have had the node, stages that were
 * reported before the last handover are left out.
 */
export const ownStages = (visibility: Visibility, node_id: string, node_instance_id: string, bind: Bind): string[] =>
  forTenant(
    visibility,
    bind,
    (tenant) => `not (
      stage.reported_at < (select reports_since from heartbeats where node_instance_id = ${node_instance_id})
      and exists (
        select 1 from allocations other
        where other.node_id = ${node_id}
          and other.tenant <> ${tenant}
      )
    )`,
  );
