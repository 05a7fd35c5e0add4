-- Payouts: four more kinds of operations, and the ledger's own accounts that they go through, rail:… and settled:….

-- +goose Up

-- Their names must be free.
-- +goose StatementBegin
do $$
declare
    taken text;
begin
    select name into taken from accounts where name like 'rail:%' or name like 'settled:%' limit 1;
    if found then
        raise exception 'the account % has a name that is the ledger''s own from now on: move its money, and rename it', taken;
    end if;
end
$$;
-- +goose StatementEnd

alter table operations
    drop constraint operations_kind_check,
    drop constraint operations_reverses_check,
    add constraint operations_kind_check
        check (kind in ('post', 'withdraw', 'deposit', 'refund', 'reserve', 'settle', 'return', 'bounce')),
    add constraint operations_reverses_check check ((kind in ('refund', 'return', 'bounce')) = (reverses is not null));

-- What is reserved is settled or goes back: a return takes the key of its payout's settle. The index is made anew, since what
-- it has of a key is what the function says.
drop index operations_key_key;

create or replace function operation_claim(key text) returns text language sql immutable parallel safe as $$
    select case
        when right(key, 9) = '/withdraw' then left(key, -9) || '/post'
        when right(key, 7) = '/return' then left(key, -7) || '/settle'
        else key
    end
$$;

create unique index operations_key_key on operations (operation_claim(key));

-- The ledger's own accounts exist once for each asset.
drop index accounts_name_key;

create unique index accounts_name_key on accounts (name)
    where name not like 'transit:%' and name not like 'rail:%' and name not like 'settled:%';

-- A person may say that a payout was paid, when its rail does not tell.
alter table dead_letter_actions
    drop constraint dead_letter_actions_action_check,
    add constraint dead_letter_actions_action_check
        check (action in ('set-aside', 'retry', 'compensate', 'discard', 'settle', 'end'));
