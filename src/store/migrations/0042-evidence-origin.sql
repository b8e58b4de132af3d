-- Who stated a fact: internal, report, node or person (lifecycle/explain/evidence-origins.ts). The
-- server sets the origin from the route that received the fact. A row written before this column
-- existed, or by a replica that does not know it yet, keeps 'unknown'. The default is metadata: no
-- row is rewritten.
alter table evidence add column if not exists origin text not null default 'unknown';

-- Facts that a machine or a person posted no longer count as proofs.
create or replace function proven_since(of_node text, moment timestamptz) returns boolean language plpgsql stable as $$
begin
  return exists (
    select 1 from evidence proof
    where proof.node_id = of_node
      and proof.kind like 'proof.%'
      and proof.at >= moment
      and proof.origin in ('internal', 'report', 'unknown'));
end $$;
