/* lex.c - PTX text into tokens, and the table of names. */
#include "parser.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name_char(char c)
{
    return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}

static int digit_value(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

const char *ptx_token_text(const ptx_token *token, char buffer[80])
{
    if (token->kind == PTX_TOKEN_END) {
        return "the end of the text";
    }
    int size = token->size > 60 ? 60 : (int)token->size;
    snprintf(buffer, 80, "\"%s%.*s%s\"", token->kind == PTX_TOKEN_DOT ? "." : "", size, token->text,
             token->size > 60 ? "..." : "");
    return buffer;
}

/* To the next token: blanks and both kinds of comments. */
static void skip_blanks(ptx_parser *p)
{
    while (p->at < p->end) {
        char c = *p->at;
        bool slash = c == '/' && p->end - p->at > 1;
        if (slash && p->at[1] == '/') {
            const char *newline = memchr(p->at, '\n', (size_t)(p->end - p->at));
            p->at = newline ? newline : p->end;
        } else if (slash && p->at[1] == '*') {
            uint32_t line = p->line;
            const char *at = p->at + 2;
            while (p->end - at > 1 && !(at[0] == '*' && at[1] == '/')) {
                p->line += *at++ == '\n';
            }
            if (p->end - at < 2) {
                ptx_fail(p, line, "a comment does not end");
            }
            p->at = at + 2;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v') {
            p->line += c == '\n';
            p->at++;
        } else {
            return;
        }
    }
}

/* Digits of `base` at `at` up to the end of the word; false: none, another character, or above 64 bits. */
static bool read_digits(const char *at, const char *end, unsigned base, uint64_t *value)
{
    *value = 0;
    for (const char *c = at; c < end; c++) {
        unsigned digit = (unsigned)digit_value(*c);
        uint64_t next;
        if (digit >= base || __builtin_mul_overflow(*value, (uint64_t)base, &next) ||
            __builtin_add_overflow(next, (uint64_t)digit, value)) {
            return false;
        }
    }
    return at < end;
}

/* Bits of the double that equals the float, NaN payloads kept (a conversion would quieten them). */
static uint64_t widen(uint32_t bits)
{
    if ((bits & 0x7f800000u) == 0x7f800000u) {
        return (uint64_t)(bits >> 31) << 63 | UINT64_C(0x7ff) << 52 | (uint64_t)(bits & 0x7fffffu) << 29;
    }
    float narrow;
    memcpy(&narrow, &bits, sizeof narrow);
    double wide = (double)narrow;
    uint64_t result;
    memcpy(&result, &wide, sizeof result);
    return result;
}

uint32_t ptx_narrow_bits(uint64_t bits)
{
    if ((bits >> 52 & 0x7ff) == 0x7ff) {
        return (uint32_t)(bits >> 63) << 31 | 0x7f800000u | (uint32_t)(bits >> 29 & 0x7fffffu);
    }
    double wide;
    memcpy(&wide, &bits, sizeof wide);
    float narrow = (float)wide;
    uint32_t result;
    memcpy(&result, &narrow, sizeof result);
    return result;
}

/* "1.5", "1e-3": false if the word is not such a number. */
static bool read_decimal(ptx_token *token)
{
    char text[64], *end;
    if (token->size >= sizeof text) {
        return false;
    }
    memcpy(text, token->text, token->size);
    text[token->size] = '\0';
    double value = strtod(text, &end);
    memcpy(&token->bits, &value, sizeof value);
    token->kind = PTX_TOKEN_FLOAT;
    return *end == '\0';
}

/* PTX ISA "Constants": 0x, 0b and octal integers, U suffix; 0f and 0d with the bits in hex; decimal floats. */
static bool read_number(ptx_token *token)
{
    const char *at = token->text, *end = at + token->size;
    char kind = 0;
    if (token->size > 1 && at[0] == '0') {
        kind = at[1];
    }
    token->kind = PTX_TOKEN_INTEGER;
    if (kind == 'f' || kind == 'F' || kind == 'd' || kind == 'D') {
        bool single = kind == 'f' || kind == 'F';
        token->is_single = single;
        token->kind = PTX_TOKEN_FLOAT;
        if (token->size != (single ? 10 : 18) || !read_digits(at + 2, end, 16, &token->bits)) {
            return false;
        }
        token->bits = single ? widen((uint32_t)token->bits) : token->bits;
        return true;
    }
    bool hex = kind == 'x' || kind == 'X';
    for (const char *c = at; c < end && !hex; c++) {
        if (*c == '.' || *c == 'e' || *c == 'E') {
            return read_decimal(token);
        }
    }
    if (end[-1] == 'U') {
        end--;
    }
    if (hex) {
        return read_digits(at + 2, end, 16, &token->bits);
    }
    if (kind == 'b' || kind == 'B') {
        return read_digits(at + 2, end, 2, &token->bits);
    }
    return at[0] == '0' && end - at > 1 ? read_digits(at + 1, end, 8, &token->bits)
                                        : read_digits(at, end, 10, &token->bits);
}

/* A number's word ends where no digit, letter, dot or exponent sign follows. */
static void lex_number(ptx_parser *p, ptx_token *token)
{
    bool hex = p->end - p->at > 1 && p->at[0] == '0' &&
               (p->at[1] == 'x' || p->at[1] == 'X' || p->at[1] == 'f' || p->at[1] == 'F' || p->at[1] == 'd' ||
                p->at[1] == 'D');
    while (p->at < p->end) {
        char c = *p->at; /* the first is a digit: before a sign there is always one more */
        bool exponent = !hex && (c == '+' || c == '-') && (p->at[-1] == 'e' || p->at[-1] == 'E');
        if (!is_name_char(c) && c != '.' && !exponent) {
            break;
        }
        p->at++;
    }
    token->size = (size_t)(p->at - token->text);
    char text[80];
    if (!read_number(token)) {
        ptx_fail(p, 0, "%s is not a number", ptx_token_text(token, text));
    }
}

/* ".shared::cluster", ".3d", ".L2::128B" */
static void lex_dot(ptx_parser *p, ptx_token *token)
{
    token->kind = PTX_TOKEN_DOT;
    token->text = ++p->at;
    while (p->at < p->end) {
        bool colons = p->end - p->at > 2 && p->at[0] == ':' && p->at[1] == ':' && is_name_char(p->at[2]);
        if (!colons && !is_name_char(*p->at)) {
            break;
        }
        p->at += colons ? 2 : 1;
    }
    token->size = (size_t)(p->at - token->text);
    if (token->size == 0) {
        ptx_fail(p, 0, "a dot with no name");
    }
}

static void lex_string(ptx_parser *p, ptx_token *token)
{
    token->kind = PTX_TOKEN_STRING;
    token->text = ++p->at;
    while (p->at < p->end && *p->at != '"' && *p->at != '\n') {
        p->at++;
    }
    if (p->at == p->end || *p->at != '"') {
        ptx_fail(p, 0, "a string does not end");
    }
    token->size = (size_t)(p->at++ - token->text);
}

static void lex_name(ptx_parser *p, ptx_token *token)
{
    token->kind = PTX_TOKEN_NAME;
    p->at++;
    while (p->at < p->end && is_name_char(*p->at)) {
        p->at++;
    }
    token->size = (size_t)(p->at - token->text);
    if (token->size > PTX_MAX_NAME) {
        ptx_fail(p, 0, "a name of %zu characters", token->size);
    }
}

void ptx_next(ptx_parser *p)
{
    skip_blanks(p);
    ptx_token *token = &p->token;
    *token = (ptx_token){.kind = PTX_TOKEN_END, .line = p->line, .text = p->at};
    if (p->at == p->end) {
        return;
    }
    char c = *p->at;
    if (is_letter(c) || c == '_' || c == '$' || c == '%') {
        lex_name(p, token);
    } else if (is_digit(c)) {
        lex_number(p, token);
    } else if (c == '.') {
        lex_dot(p, token);
    } else if (c == '"') {
        lex_string(p, token);
    } else if (c && strchr("{}()[]<>,;:=+-|!@", c)) {
        token->kind = PTX_TOKEN_CHAR;
        token->symbol = c;
        token->size = 1;
        p->at++;
    } else {
        ptx_fail(p, 0, "character 0x%02x has no place in PTX", (unsigned)(unsigned char)c);
    }
}

bool ptx_is(const ptx_parser *p, char symbol)
{
    return p->token.symbol == symbol;
}

bool ptx_accept(ptx_parser *p, char symbol)
{
    if (!ptx_is(p, symbol)) {
        return false;
    }
    ptx_next(p);
    return true;
}

void ptx_expect(ptx_parser *p, char symbol)
{
    char text[80];
    if (!ptx_accept(p, symbol)) {
        ptx_fail(p, 0, "'%c' expected, not %s", symbol, ptx_token_text(&p->token, text));
    }
}

bool ptx_is_dot(const ptx_parser *p, const char *text)
{
    return p->token.kind == PTX_TOKEN_DOT && strlen(text) == p->token.size &&
           memcmp(text, p->token.text, p->token.size) == 0;
}

bool ptx_accept_dot(ptx_parser *p, const char *text)
{
    if (!ptx_is_dot(p, text)) {
        return false;
    }
    ptx_next(p);
    return true;
}

static uint32_t hash_name(const char *text, size_t size)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    }
    return hash;
}

ptx_name *ptx_known_name(const ptx_parser *p, const char *text, size_t size)
{
    uint32_t hash = hash_name(text, size);
    ptx_name *name = p->bucket_count ? p->bucket[hash & (p->bucket_count - 1)] : NULL;
    while (name && !(name->hash == hash && strncmp(name->text, text, size) == 0 && name->text[size] == '\0')) {
        name = name->next;
    }
    return name;
}

static void grow_names(ptx_parser *p)
{
    size_t count = p->bucket_count ? p->bucket_count * 2 : 1024;
    ptx_name **bucket = calloc(count, sizeof *bucket);
    if (!bucket) {
        ptx_fail(p, 0, "out of memory");
    }
    for (size_t i = 0; i < p->bucket_count; i++) {
        for (ptx_name *name = p->bucket[i], *next; name; name = next) {
            next = name->next;
            name->next = bucket[name->hash & (count - 1)];
            bucket[name->hash & (count - 1)] = name;
        }
    }
    free(p->bucket);
    p->bucket = bucket;
    p->bucket_count = count;
}

ptx_name *ptx_intern(ptx_parser *p, const char *text, size_t size)
{
    ptx_name *name = ptx_known_name(p, text, size);
    if (name) {
        return name;
    }
    if (p->name_count >= p->bucket_count) {
        grow_names(p);
    }
    name = ptx_alloc(p->module, sizeof *name + size + 1);
    memcpy(name->text, text, size);
    name->hash = hash_name(text, size);
    ptx_name **bucket = &p->bucket[name->hash & (p->bucket_count - 1)];
    name->next = *bucket;
    *bucket = name;
    p->name_count++;
    return name;
}

ptx_name *ptx_take_name(ptx_parser *p)
{
    char text[80];
    if (p->token.kind != PTX_TOKEN_NAME) {
        ptx_fail(p, 0, "a name expected, not %s", ptx_token_text(&p->token, text));
    }
    ptx_name *name = ptx_intern(p, p->token.text, p->token.size);
    ptx_next(p);
    return name;
}

uint64_t ptx_take_integer(ptx_parser *p, uint64_t least, uint64_t most)
{
    char text[80];
    uint64_t value = p->token.bits;
    if (p->token.kind != PTX_TOKEN_INTEGER || value < least || value > most) {
        ptx_fail(p, 0, "an integer from %llu to %llu expected, not %s", (unsigned long long)least,
                 (unsigned long long)most, ptx_token_text(&p->token, text));
    }
    ptx_next(p);
    return value;
}

void ptx_take_number(ptx_parser *p, ptx_operand *number)
{
    char text[80];
    bool negative = ptx_accept(p, '-'), is_float = p->token.kind == PTX_TOKEN_FLOAT;
    if (!is_float && p->token.kind != PTX_TOKEN_INTEGER) {
        ptx_fail(p, 0, "a number expected, not %s", ptx_token_text(&p->token, text));
    }
    if (negative && p->token.is_single) {
        ptx_fail(p, 0, "a constant of 0f has its sign in its bits"); /* ptxas takes no '-' either */
    }
    uint64_t bits = p->token.bits;
    if (negative) {
        bits = is_float ? bits ^ UINT64_C(1) << 63 : 0 - bits;
    }
    *number = (ptx_operand){.kind = PTX_IMMEDIATE, .is_float = is_float, .is_single = p->token.is_single, .bits = bits};
    ptx_next(p);
}
