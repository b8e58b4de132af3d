-- What an instance has shown of its boot, as kind, code and detail instead of a sentence. Rows of earlier versions are converted.
-- Of several crashes with the same code only the first one is kept; no reader ever used the others.
alter table boot_signs rename to boot_sentences;
alter table boot_sentences rename constraint boot_signs_pkey to boot_sentences_pkey;
alter table boot_sentences rename constraint boot_signs_node_instance_id_fkey to boot_sentences_node_instance_id_fkey;

create table boot_signs (
  node_instance_id text not null references instances (node_instance_id),
  kind text not null,
  -- What was shown: the stage, state or finding. Unique within its kind.
  code text not null,
  -- For people, and not part of the key: the message of a crash.
  detail text,
  seen_at timestamptz not null,
  -- Only replicas of an earlier version write and read it. Drop it once none can run any more.
  sign text,
  primary key (node_instance_id, kind, code)
);

-- A replica of an earlier version that still runs writes a sentence, and looks for two of them.
create function translate_boot_sign() returns trigger language plpgsql as $$
begin
  if new.kind = 'extended' then
    new.sign := 'an operator gave it more time';
  elsif new.kind = 'crash' then
    new.sign := 'crashed ' || new.code || ' ' || coalesce(new.detail, '');
  elsif new.sign = 'an operator gave it more time' then
    new.kind := 'extended';
    new.code := '';
  elsif starts_with(new.sign, 'crashed ') then
    new.kind := 'crash';
    new.code := split_part(new.sign, ' ', 2);
    new.detail := substr(new.sign, length('crashed ' || split_part(new.sign, ' ', 2)) + 2);
  elsif starts_with(new.sign, 'certain failure ') then
    new.kind := 'certain_failure';
    new.code := substr(new.sign, length('certain failure ') + 1);
  elsif starts_with(new.sign, 'told failure ') then
    new.kind := 'reported_failure';
    new.code := substr(new.sign, length('told failure ') + 1);
  elsif starts_with(new.sign, 'certain diagnosis ') then
    new.kind := 'certain_diagnosis';
    new.code := substr(new.sign, length('certain diagnosis ') + 1);
  elsif starts_with(new.sign, 'diagnosis ') then
    new.kind := 'diagnosis';
    new.code := substr(new.sign, length('diagnosis ') + 1);
  elsif starts_with(new.sign, 'provider state ') then
    new.kind := 'provider_state';
    new.code := substr(new.sign, length('provider state ') + 1);
  elsif starts_with(new.sign, 'boot stage ') then
    new.kind := 'boot_stage';
    new.code := substr(new.sign, length('boot stage ') + 1);
  elsif starts_with(new.sign, 'reports ') then
    new.kind := 'reported_stage';
    new.code := substr(new.sign, length('reports ') + 1);
  else
    new.kind := 'part';
    new.code := new.sign;
  end if;
  return new;
end $$;
-- Rows of this version that no earlier one looks for do not pay for the function.
create trigger translate_boot_sign before insert on boot_signs
  for each row when (new.kind is null or new.kind in ('extended', 'crash')) execute function translate_boot_sign();

insert into boot_signs (node_instance_id, sign, seen_at)
  select node_instance_id, sign, seen_at from boot_sentences order by seen_at
  on conflict do nothing;
drop table boot_sentences;
