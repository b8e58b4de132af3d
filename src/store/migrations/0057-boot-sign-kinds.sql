-- online
-- Stores each boot sign as kind, code and detail instead of a sentence. Fleets
-- may have millions of rows, so they are converted while others serve. No line within a statement
-- may end in a semicolon.
alter table boot_signs
  add column if not exists kind text,
  -- The stage, state or diagnosis. Unique within its kind.
  add column if not exists code text,
  -- For people: the message of a crash.
  add column if not exists detail text;

create or replace function boot_sign_fields(sentence text, out kind text, out code text, out detail text)
language sql immutable parallel safe as $$
  select
    coalesce(known.kind, 'part'),
    case known.kind
      when 'extended' then ''
      when 'crash' then split_part(sentence, ' ', 2)
      else substr(sentence, coalesce(length(known.prefix), 0) + 1)
    end,
    case known.kind when 'crash' then substr(sentence, length('crashed ' || split_part(sentence, ' ', 2)) + 2) end
  from (values (1)) as always
  left join (values
    ('extended', 'an operator gave it more time'),
    ('crash', 'crashed '),
    ('certain_failure', 'certain failure '),
    ('reported_failure', 'told failure '),
    ('certain_diagnosis', 'certain diagnosis '),
    ('diagnosis', 'diagnosis '),
    ('provider_state', 'provider state '),
    ('boot_stage', 'boot stage '),
    ('reported_stage', 'reports ')
  ) as known(kind, prefix) on starts_with(sentence, known.prefix)
$$;

-- A replica of an earlier version that still runs writes sentences, and reads the sentences of
-- crashes and extensions. The trigger translates in both directions.
create or replace function translate_boot_sign() returns trigger language plpgsql as $$ begin
  if new.kind is null then select * into new.kind, new.code, new.detail from boot_sign_fields(new.sign); else
    new.sign := case new.kind
      when 'extended' then 'an operator gave it more time'
      else 'crashed ' || new.code || ' ' || coalesce(new.detail, '') end; end if; return new; end
$$;
drop trigger if exists translate_boot_sign on boot_signs;
-- The condition spares all other rows of this version the call of the function.
create trigger translate_boot_sign before insert on boot_signs
  for each row when (new.kind is null or new.kind in ('extended', 'crash')) execute function translate_boot_sign();

update boot_signs
set (kind, code, detail) = (select fields.kind, fields.code, fields.detail from boot_sign_fields(sign) as fields)
where kind is null;

-- Of several crashes of an instance with the same code, only the first was ever read.
delete from boot_signs later using boot_signs earlier
where later.kind = 'crash' and earlier.kind = 'crash'
  and earlier.node_instance_id = later.node_instance_id and earlier.code = later.code
  and (earlier.seen_at, earlier.sign) < (later.seen_at, later.sign);

create unique index concurrently if not exists boot_signs_by_code on boot_signs (node_instance_id, kind, code);

alter table boot_signs
  drop constraint if exists boot_signs_named,
  add constraint boot_signs_named check (kind is not null and code is not null) not valid;
alter table boot_signs validate constraint boot_signs_named;

-- From now on only replicas of an earlier version use `sign`. Drop it once none can run any more.
alter table boot_signs drop constraint if exists boot_signs_pkey;
alter table boot_signs alter column sign drop not null;
