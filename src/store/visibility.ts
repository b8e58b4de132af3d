/**
 * Tenant isolation in SQL: every predicate that keeps a tenant from another's rows. The text
 * depends on the kind of visibility, so a read of the whole fleet carries no predicate and both
 * kinds keep plans of their own.
 */
import type { Visibility } from '../lifecycle/visibility.ts';
import type { Bind } from './pg/walk.ts';

/** Conditions to join with `and`; none for the whole fleet. */
const forTenant = (visibility: Visibility, bind: Bind, condition: (tenant: string) => string): string[] =>
  visibility.kind === 'fleet' ? [] : [condition(bind(visibility.tenant))];

/** For text that goes behind another condition. */
export const andAll = (conditions: readonly string[]): string => conditions.map((each) => `and ${each}`).join(' ');

/** Allocations or operations of the tenant. `table` is how the statement names them. */
export const ownRows = (visibility: Visibility, table: string, bind: Bind): string[] =>
  forTenant(visibility, bind, (tenant) => `${table}.tenant = ${tenant}`);

/** Nodes that the tenant holds now. Needs `withHolder` of rows/nodes.ts. */
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

/** Nodes that the tenant holds or ever held. `node_id` is an expression. */
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
 * Allocations by which a tenant may hold a node, by the index `allocations_held`. The present
 * holder is checked afterwards.
 */
export const mayHoldNode = (tenant: string): string =>
  `tenant = ${tenant} and status <> 'released' and node_id is not null`;

/**
 * Facts, tasks or log chunks that name an allocation of the tenant. Looks the owner up for each
 * row.
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
 * Facts about allocations of the tenant. If they are all about the allocation `only`, its owner is
 * looked up once. A scalar subquery: as a join, a prepared plan would read all allocations of the
 * tenant.
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

/** Boot stages, except those reported before the handover of a node that other tenants have had. */
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
