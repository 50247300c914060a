//! Names the tokens of Ruby in plain words, for the messages of syntax errors.

/// The message for a tag that ends before its code is complete.
pub(super) const INCOMPLETE_CODE: &str = "the Ruby code in this tag is incomplete";

/// Translates a message of the parser: `unexpected tRPAREN` becomes `unexpected ')'`.
pub(super) fn plain_message(message: &str) -> String {
    match message.strip_prefix("unexpected ") {
        // The code of a tag ends in this token.
        Some("tSEMI") => INCOMPLETE_CODE.to_owned(),
        Some(token) => format!("unexpected {}", plain_token(token)),
        None => match message
            .strip_prefix("unterminated ")
            .and_then(|text| text.strip_suffix(" meets end of file"))
        {
            Some(construct) => format!("a {construct} is not closed"),
            None => message.to_owned(),
        },
    }
}

/// Describes a token of Ruby's grammar in plain words.
fn plain_token(token: &str) -> String {
    let text = match token {
        "END_OF_INPUT" => "end of the template",
        "tNL" => "end of the line",
        "tIDENTIFIER" | "tFID" => "name",
        "tCONSTANT" => "constant",
        "tIVAR" | "tGVAR" | "tCVAR" => "variable",
        "tINTEGER" | "tFLOAT" | "tRATIONAL" | "tIMAGINARY" => "number",
        "tSTRING_BEG" | "tSTRING_CONTENT" | "tSTRING_END" | "tCHAR" => "quoted text",
        "tLABEL" | "tLABEL_END" => "key of a hash",
        "tSYMBEG" => "symbol",
        "tLPAREN" | "tLPAREN2" | "tLPAREN_ARG" => "'('",
        "tRPAREN" => "')'",
        "tLBRACK" | "tLBRACK2" => "'['",
        "tRBRACK" => "']'",
        "tLCURLY" | "tLBRACE" | "tLBRACE_ARG" => "'{'",
        "tRCURLY" | "tSTRING_DEND" => "'}'",
        "tCOMMA" => "','",
        "tCOLON" => "':'",
        "tCOLON2" | "tCOLON3" => "'::'",
        "tDOT" => "'.'",
        "tANDDOT" => "'&.'",
        "tEQL" => "'='",
        "tOP_ASGN" => "assignment",
        "tASSOC" => "'=>'",
        "tEQ" => "'=='",
        "tNEQ" => "'!='",
        "tGT" => "'>'",
        "tLT" => "'<'",
        "tGEQ" => "'>='",
        "tLEQ" => "'<='",
        "tLSHFT" => "'<<'",
        "tBANG" => "'!'",
        "tEH" => "'?'",
        "tPIPE" => "'|'",
        "tAMPER" | "tAMPER2" => "'&'",
        "tOROP" => "'||'",
        "tANDOP" => "'&&'",
        "tPLUS" | "tUPLUS" => "'+'",
        "tMINUS" | "tUMINUS" => "'-'",
        "tSTAR" | "tSTAR2" => "'*'",
        "tDIVIDE" => "'/'",
        "tPERCENT" => "'%'",
        other => return keyword(other).unwrap_or_else(|| other.to_owned()),
    };
    text.to_owned()
}

/// Returns the keyword of a token such as `kEND` or `kIF_MOD`.
fn keyword(token: &str) -> Option<String> {
    let name =
        token.strip_prefix('k').filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))?;
    let word = ["_MOD", "_BLOCK", "_COND", "_LAMBDA"].iter().find_map(|suffix| name.strip_suffix(suffix));
    Some(format!("`{}`", word.unwrap_or(name).to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::plain_message;

    #[test]
    fn tokens_have_plain_names() {
        for (message, plain) in [
            ("unexpected tSEMI", "the Ruby code in this tag is incomplete"),
            ("unexpected tRPAREN", "unexpected ')'"),
            ("unexpected kEND", "unexpected `end`"),
            ("unexpected kRESCUE_MOD", "unexpected `rescue`"),
            ("unexpected tBACK_REF", "unexpected tBACK_REF"),
            ("unterminated string meets end of file", "a string is not closed"),
            ("invalid symbol", "invalid symbol"),
        ] {
            assert_eq!(plain_message(message), plain);
        }
    }
}
