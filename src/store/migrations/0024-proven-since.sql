-- Whether anything was proven of a node since a moment. Of its own, so that a question about nodes is not planned over every piece of evidence
-- there is, twice, for the sake of the few nodes of which it is asked: that took several times as long as the answer.
create function proven_since(of_node text, moment timestamptz) returns boolean language plpgsql stable as $$
begin
  return exists (select 1 from evidence proof where proof.node_id = of_node and proof.kind like 'proof.%' and proof.at >= moment);
end $$;
